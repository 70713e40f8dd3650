"""`tuneloop`: the command line; commands are loaded by name, so that help is fast."""

from __future__ import annotations

import ast
import difflib
import gc
import importlib
import io
import logging
import os
import sqlite3
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from tuneloop import __version__
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.formatting import printable
from tuneloop.core.os_errors import os_error_line

EXAMPLES = """\b
Examples:
  tuneloop run --benchmark wordproblems --base-model tiny --loop-n 3
  tuneloop run --benchmark ./my_task --dataset ./my_data --base-model ./my_model --timeout 12h
  tuneloop watch            follow the newest run from another terminal
  tuneloop chat             talk with it: ask, steer
  tuneloop stop             end its job, keep everything, pause
  tuneloop resume           go on where it stopped, also after a crash
  tuneloop report --open    the result
  tuneloop doctor           what this machine has and what is missing
  tuneloop help run         options and examples of a command
  tuneloop completion --install   Tab completes commands and options from the next shell on
"""
ORDER = ("run", "resume", "status", "watch", "chat", "fork", "stop", "report", "list", "clean", "doctor", "engines")
NO_COLOR = "--no-color"
ALIASES = {"llm-finetune": "run"}
HERE = Path(__file__).parent
INTERRUPTED = 130
LONGEST = 20_000  # characters of an error: what a job said may be in it


@cache
def commands() -> dict[str, str]:
    """Names of the command modules beside this file and their first sentences, read without importing them."""
    found: dict[str, str] = {}
    for path in sorted(HERE.glob("*.py")):
        if (docstring := _docstring(path)) is not None:
            found[path.stem.replace("_", "-")] = _sentence(docstring)
    rank = {name: place for place, name in enumerate(ORDER)}
    return dict(sorted(found.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0])))


def is_command(name: str) -> bool:
    """Whether there is such a command; other modules are not read for it."""
    path = HERE / f"{name.replace('-', '_')}.py"
    return path.parent == HERE and path.is_file() and "_" not in name and _docstring(path) is not None


def _docstring(path: Path) -> str | None:
    """The docstring of a command's module; None for a module that is none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "") if any(_defines(node, "command") for node in tree.body) else None


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == name
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)


def _sentence(docstring: str) -> str:
    line = docstring.partition("\n")[0]
    start, colon, rest = line.partition("`: ")
    return (rest if colon and start.startswith("`tuneloop") else line).rstrip(".")


class Commands(click.Group):
    """A group whose commands lie one per file; errors are one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names in the order in which one needs them."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import `cli/<name>.py` and take its `command`."""
        name = ALIASES.get(cmd_name, cmd_name)
        if not is_command(name):
            return None
        command: click.Command = importlib.import_module(f"tuneloop.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown name gets a suggestion."""
        name = args[0].replace("_", "-")
        if not name.startswith("-") and name not in ALIASES and not is_command(name):
            close = difflib.get_close_matches(name, commands(), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"right is one of {', '.join(commands())}"
            raise click.UsageError(f"no command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, [name, *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(commands().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands with their sentences, without importing any; after a dash the options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in commands().items() if name.startswith(incomplete)]

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run the command line and exit: 0 done, 1 infrastructure failure, 2 the request was wrong, 130 interrupted."""
        try:
            words = expand_help(drop_no_color(sys.argv[1:] if args is None else list(args)))
            if any("\0" in word for word in words):
                raise InvalidRequestError("a word on the command line holds a NUL character; right is plain text")
            code = super().main(words, *rest, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as e:
            click.echo(e.format_message())
            code = 0
        except click.exceptions.Abort as e:
            if isinstance(e.__cause__, EOFError):  # click takes a file that is cut off for a closed terminal
                raise e.__cause__ from None
            code = print_error("interrupted", INTERRUPTED)
        except click.ClickException as e:
            code = print_error(" ".join(e.format_message().split()), e.exit_code)
        except InvalidRequestError as e:
            code = print_error(str(e), 2)
        except InfrastructureError as e:
            code = print_error(str(e), 1)
        except OSError as e:
            code = print_error(os_error_line(e), 1)
        except sqlite3.Error as e:
            code = print_error(f"a database cannot be used: {e}", 1)
        sys.exit(code if isinstance(code, int) else 0)


class ExampleGroup(click.Group):
    """A group that writes its examples once: each of its commands shows those that are its own."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """As click does; the command's epilog begins with its examples."""
        of = name or cmd.name
        own = [line for line in (self.epilog or "").splitlines() if line.split()[2:3] == [of]]
        if own and "Example" not in (cmd.epilog or ""):
            cmd.epilog = "\n\n".join(filter(None, ("\n".join(("\b", "Examples:", *own)), cmd.epilog)))
        super().add_command(cmd, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, with whole sentences."""
        found = [(name, self.commands[name].get_short_help_str(LONGEST)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(found)


def drop_no_color(words: list[str]) -> list[str]:
    """The words without `--no-color`, wherever it stands before `--`; it means the same as NO_COLOR=1."""
    end = words.index("--") if "--" in words else len(words)
    if NO_COLOR not in words[:end]:
        return words
    os.environ["NO_COLOR"] = "1"
    return [word for word in words[:end] if word != NO_COLOR] + words[end:]


def expand_help(words: list[str]) -> list[str]:
    """`help params check` is `params check --help`."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def print_error(text: str, code: int) -> int:
    """Say it in one line on stderr and hand the exit code back."""
    click.echo(f"tuneloop: {printable(text, LONGEST)}", err=True)
    return code


@click.group(
    cls=Commands,
    epilog=EXAMPLES,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda token: token.replace("_", "-"),
        "max_content_width": 110,
        "show_default": True,
    },
)
@click.option(
    NO_COLOR, is_flag=True, expose_value=False, help="Print no colours, as NO_COLOR=1 does; any command takes it."
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Local folder for checkpoints and locks.  [default: TUNELOOP_STATE_DIR]",
)
@click.version_option(__version__, "-V", "--version", prog_name="tuneloop", message="%(prog)s %(version)s")
def cli(state_dir: Path | None) -> None:
    """Fine-tune a model to be better on a benchmark, and prove it on a sealed test.

    Five agents inspect the data, write the processing script and the training config, check both fail-fast, train with
    LLaMA-Factory, evaluate with OpenCompass, learn from the result and go round again. A sealed test decides at the
    end.

    Settings come from options, then from the environment, then from .env in the working directory.
    """
    if state_dir is not None:
        from tuneloop.core.state_folder import name_state_folder  # help needs none of its imports

        name_state_folder(state_dir)


def main() -> None:
    """Entry point of the `tuneloop` script."""
    # Libraries read `.env` too and warn of a line that load_settings refuses with a better sentence.
    logging.getLogger("dotenv").setLevel(logging.ERROR)
    # Importing makes hundreds of thousands of objects that stay; the default looks through them again and again.
    gc.set_threshold(100_000, 50, 50)
    # To look for plugins, pydantic reads what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of files need not be characters that it can write
    cli()


if __name__ == "__main__":
    main()
