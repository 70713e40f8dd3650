"""`tuneloop mcp`: give the tools to Claude, Cursor or VS Code; list the servers."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from tuneloop.cli.main import ExampleGroup
from tuneloop.cli.mcp_clients import (
    McpClient,
    Scope,
    mcp_clients,
    merge_servers,
    parse_object,
    read_file,
    unified_diff,
    write_file,
)
from tuneloop.core.errors import InvalidRequestError
from tuneloop.mcp_servers.main import PORTS, SERVERS

EXAMPLES = """\b
Examples:
  tuneloop mcp install claude-code            for this folder: .mcp.json
  tuneloop mcp install claude-desktop --yes   for this user
  tuneloop mcp install vscode --print         only show what would be written
  tuneloop mcp list                           the servers, and who has them

\b
The servers work in the folder in which this was called: its .env is read there, and data, models and benchmarks below
it may be named. No key is written into the file. Docs: docs/clients.md.
"""
PREFIX = "tuneloop-"


@click.group(cls=ExampleGroup, epilog=EXAMPLES)
def command() -> None:
    """Let Claude, Cursor or VS Code use the tools: start runs, look at data, ask for parameters."""


@command.command("install")
@click.argument("program", type=click.Choice(list(mcp_clients())))
@click.option("--user", "scope", flag_value="user", help="For all folders of this user.")
@click.option("--project", "scope", flag_value="project", help="For this folder.  [default, where the program has it]")
@click.option(
    "--server", "servers", multiple=True, type=click.Choice(SERVERS), help="Only this one; repeat it for more."
)
@click.option("--print", "only_print", is_flag=True, help="Print the servers as JSON and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def install(program: str, scope: Scope | None, servers: tuple[str, ...], only_print: bool, yes: bool) -> None:
    """Write the servers into PROGRAM's own file, after showing what changes. What else is in it stays."""
    known = mcp_clients()[program]
    wanted = {PREFIX + name: server_entry(known, name) for name in servers or SERVERS}
    if only_print:
        click.echo(json.dumps({known.key: wanted}, indent=2, ensure_ascii=False))
        return
    file = known.file(scope or ("project" if known.project else "user"))
    old = read_file(file)
    new = merge_servers(old, file, known.key, wanted)
    if new == old:
        click.echo(f"{file} has them already")
        return
    click.echo(unified_diff(file, old, new))
    if not (yes or click.confirm(f"Write {file}?")):
        return
    write_file(file, old, new)
    click.echo(f"written: {file}; now {known.then}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def listing(as_json: bool) -> None:
    """Show the servers, what each offers, and which programs have them."""
    where = {name: installed_in(name) for name in SERVERS}
    rows = [{"name": n, "offers": server_summary(n), "port": PORTS[n], "installed": where[n]} for n in SERVERS]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['name']:<11} {row['offers']}")
        click.echo(
            f"{'':<11} installed: {', '.join(where[str(row['name'])]) or 'nowhere'}; over HTTP: port {row['port']}"
        )


def server_entry(program: McpClient, server: str) -> dict[str, Any]:
    """The server as `program` starts it: this installation's script, in this folder, with this home and its engines."""
    home, engines = os.environ.get("FT_FILE_PATH"), os.environ.get("FT_ENGINES_DIR")
    env = {"FT_FILE_PATH": str(Path(home).expanduser().absolute())} if home else {}
    env |= {"FT_ENGINES_DIR": engines} if engines else {}  # a relative one lies below the home
    owner = ("--owner",) if server == "evaluation" else ()  # the user who installs it is the owner
    return program.entry(script_path(), (server, *owner, "--folder", str(Path.cwd())), env)


def script_path() -> str:
    """The absolute path of `tuneloop-mcp` beside this interpreter, else on PATH. Raises InvalidRequestError."""
    beside = Path(sys.executable).parent / "tuneloop-mcp"
    found = str(beside) if beside.is_file() else shutil.which("tuneloop-mcp")
    if found is None:
        raise InvalidRequestError(f"{beside} is missing; right is an installed tuneloop: pip install tuneloop")
    return str(Path(found).absolute())


def installed_in(server: str) -> list[str]:
    """Programs that have it, as `name (scope)`; a file that cannot be read has nothing."""
    return [
        f"{program.name} ({scope})"
        for program in mcp_clients().values()
        for scope, file in (("project", program.project), ("user", program.user))
        if file is not None and PREFIX + server in file_entries(file, program.key)
    ]


def file_entries(file: Path, key: str) -> dict[str, Any]:
    """The servers in a program's file."""
    try:
        found = parse_object(read_file(file), file).get(key, {})
    except InvalidRequestError:
        return {}
    return found if isinstance(found, dict) else {}


def server_summary(server: str) -> str:
    """The server's own sentence, read without importing it."""
    source = Path(__file__).resolve().parents[1] / "mcp_servers" / f"{server}.py"
    sentence = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return sentence.partition(": ")[2].rstrip(".")
