"""`tuneloop doctor`: what this machine has, what is missing, and the cure."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuneloop.cli.checks import Check, all_checks
from tuneloop.core.wording import clean

MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "missing": ("missing", "bold red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Look at Python, memory, disk, GPU, sandbox, engines and settings. Exit code 1: something is missing."""
    checks = all_checks(Path(".env"))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(check) for check in checks], indent=1))
    else:
        show(checks, Console())
    ctx.exit(1 if any(check.verdict == "missing" for check in checks) else 0)


def show(checks: list[Check], console: Console) -> None:
    """The checks for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for check in checks:
        mark, style = MARKS[check.verdict]
        cure = f"\n→ {check.cure}" if check.cure else ""
        table.add_row(Text(mark, style=style), check.name, Text(clean(check.says, 500) + cure))
    console.print(table)
