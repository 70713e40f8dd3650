"""`tuneloop list`: what is registered, and the runs there are."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import click

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.manifest import all_runs
from tuneloop.tools.runs.status import run_row

Row = dict[str, Any]
WIDE = 130  # columns below which a description has no room beside the rest
KINDS = ("benchmarks", "datasets", "models", "runs")
EXAMPLES = """\b
Examples:
  tuneloop list benchmarks
  tuneloop list benchmarks --family rg
  tuneloop list runs
  tuneloop list runs --team
  tuneloop list datasets --json | jq -r '.[].name'
"""


@click.command(epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--family", default="", metavar="NAME", help="Of benchmarks those of a family, e.g. arc; rg: reasoning_gym."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with everything that is declared.")
@click.option("--team", is_flag=True, help="Of runs those of the whole team, from the server of TUNELOOP_TEAM_URL.")
def command(kind: str, family: str, as_json: bool, team: bool) -> None:
    """List benchmarks, datasets, models or runs. Folders and hub ids work too, without being registered."""
    settings = load_settings()
    home = settings.home
    if team and kind != "runs":
        raise InvalidRequestError(f"--team is for runs; `tuneloop list {kind}` has no team")
    if family and kind != "benchmarks":
        raise InvalidRequestError(f"--family is for benchmarks; `tuneloop list {kind}` has no families")
    rows = {"benchmarks": list_benchmarks, "datasets": list_datasets, "models": list_models, "runs": list_runs}[kind]
    found = list_team(settings.team_url) if team else list_family(family, home) if family else rows(home)
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        show_table([(team_cells if team else SHORT.get(kind, dict))(row) for row in found])


def read_cards(package: ModuleType, marker: str) -> list[Row]:
    """Declarations of a catalog."""
    from tuneloop.tools.registry import declared_entries  # catalogs are heavy, and runs are listed without them

    return [card.model_dump(mode="json") for card, _ in declared_entries(package, marker).values()]


def list_benchmarks(home: Home) -> list[Row]:
    """Registered benchmarks."""
    from tuneloop.tools.benchmark_items.resolve import benchmark_cards

    return benchmark_cards(home)


def list_family(name: str, home: Home) -> list[Row]:
    """The benchmarks of a family. Raises InvalidRequestError for another name."""
    from tuneloop.tools.benchmark_items.reasoning_gym import task_cards
    from tuneloop.tools.registry import did_you_mean

    if name == "rg":
        return list(task_cards())
    rows = {row["name"]: row for row in list_benchmarks(home)}
    families = [one for one, row in rows.items() if row["parts"]]
    if name not in families:
        raise InvalidRequestError(f"--family {name!r}: {did_you_mean(name, [*families, 'rg'])}")
    return [rows[part] for part in rows[name]["parts"]]


def list_datasets(home: Home) -> list[Row]:  # noqa: ARG001 - as the others are called
    """Registered data sets."""
    from tuneloop.tools.hub import datasets

    return [card.model_dump(mode="json") for card in datasets.dataset_cards().values()]


def list_models(home: Home) -> list[Row]:  # noqa: ARG001 - as the others are called
    """Registered base models."""
    from tuneloop.tools import models

    return read_cards(models, "MODEL")


def benchmark_row(row: Row) -> Row:
    """What people look for in a list."""
    count = row["items"]
    said = {
        "name": row["name"],
        "domain": row["domain"],
        "metric": row["metric"] if not row["parts"] else f"{len(row['parts'])} parts",
        "items": f"{count['validation']} + {count['test']}" if count else "-",
        "needs": ", ".join(row["needs"]) or "-",
        "licence": row["licence"],
    }
    missing = f"Without {', '.join(row['unavailable'])} (why: --json). " if row["unavailable"] else ""
    return {**said, "description": missing + row["description"]}


def card_row(row: Row) -> Row:
    """Name, where known domain and licence, and what it is."""
    return {name: str(row[name]) for name in ("name", "domain", "licence", "description") if name in row}


SHORT = {"benchmarks": benchmark_row, "datasets": card_row, "models": card_row}


def list_runs(home: Home) -> list[Row]:
    """Runs, newest first."""
    return [run_row(run) for run in all_runs(home)]


def list_team(url: str | None) -> list[Row]:
    """Runs of the team, the one that changed last first. Raises InvalidRequestError where no server is named."""
    from tuneloop.tools.team.index import VARIABLE, read_rows

    if not url:
        raise InvalidRequestError(f"--team: {VARIABLE} is not set; right is postgresql://user@host:5432/database")
    return read_rows(url)


def team_cells(row: Row) -> Row:
    """What people look for in the team's table."""
    names = ("run", "user_name", "host", "benchmark", "base_model", "state", "experiments")
    scores = {name: "-" if row[name] is None else f"{row[name]:.1f}" for name in ("baseline", "best")}
    return {
        **{name: row[name] for name in names},
        **scores,
        "claim": row["claim"] or "-",
        "changed": row["changed"][:16],
    }


def show_table(rows: list[Row]) -> None:
    """The rows as a table."""
    from rich.table import Table
    from rich.text import Text

    from tuneloop.cli.terminal import cell_text, table_console

    console = table_console()
    if not rows:
        console.print("none")
        return
    narrow = console.width < WIDE and "description" in rows[0]
    shown = ("name", "description") if narrow else tuple(rows[0])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in shown:
        table.add_column(name, no_wrap=name == "name")
    for row in rows:
        table.add_row(*(Text(cell_text(str(row[name]))) for name in shown))
    console.print(table)
    if narrow:
        rest = ", ".join(name for name in rows[0] if name not in shown)
        console.print(f"{rest}: in a terminal of {WIDE} columns, or with --json")
