"""`tuneloop completion`: let the shell complete commands and options with Tab."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from tuneloop.cli.main import cli
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import write_atomic

EXAMPLES = """\b
Examples:
  tuneloop completion --install        for the shell that SHELL names
  tuneloop completion zsh --install
  tuneloop completion bash > tuneloop.sh
"""
SHELLS = ("bash", "zsh", "fish")
PROGRAM, VARIABLE = "tuneloop", "_TUNELOOP_COMPLETE"


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Write the script, and a line in the shell's own start file.")
def command(shell: str | None, install: bool) -> None:
    """Print the script with which SHELL (the one that SHELL names) completes tuneloop's commands, or install it."""
    name = shell or shell_here()
    script = completion_script(name)
    if not install:
        click.echo(script)
        return
    for file in install_script(name, script, Path.home()):
        click.echo(f"written: {file}")
    click.echo(f"completion works in the next {name}")


def shell_here() -> str:
    """The shell of this user. Raises InvalidRequestError where it is none that can be told how."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise InvalidRequestError(f"SHELL={name!r}: name the shell: tuneloop completion {'|'.join(SHELLS)} --install")
    return name


def completion_script(shell: str) -> str:
    """What the shell sources; it asks `tuneloop` itself for words."""
    kind = get_completion_class(shell)
    assert kind is not None, "one of SHELLS"
    # Not `kind.source`, which starts bash to learn its version.
    return ShellComplete.source(kind(cli, {}, PROGRAM, VARIABLE))


def install_script(shell: str, script: str, home: Path) -> list[Path]:
    """Write the script below `home` and, for bash and zsh, the line that sources it; the files that changed."""
    if shell == "fish":
        return changed_files({home / ".config/fish/completions/tuneloop.fish": script})
    file = home / f".local/share/tuneloop/completion.{shell}"
    start = home / f".{shell}rc"
    old = start.read_text() if start.is_file() else ""
    line = f'[ -r "{file}" ] && . "{file}"  # completion of tuneloop\n'
    joined = old if line in old else f"{old}{'' if old.endswith(chr(10)) or not old else chr(10)}{line}"
    return changed_files({file: script, start: joined})


def changed_files(wanted: dict[Path, str]) -> list[Path]:
    """Write what is not there as wanted; links stay links, permissions stay."""
    changed = [file for file, text in wanted.items() if not file.is_file() or file.read_text() != text]
    for file in changed:
        mode = stat.S_IMODE(file.stat().st_mode) if file.is_file() else None
        write_atomic(file.resolve(), wanted[file], mode)
    return changed
