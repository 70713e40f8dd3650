"""`tuneloop list`: what is registered, and the runs there are."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import click

from tuneloop.cli.pick import runs
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import load_settings
from tuneloop.core.wording import clean
from tuneloop.graph.manifest import read_spec
from tuneloop.graph.status import run_state

Row = dict[str, str]
KINDS = ("benchmarks", "datasets", "models", "runs")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(kind: str, as_json: bool) -> None:
    """List benchmarks, datasets, models or runs. Folders and hub ids work too, without being registered."""
    rows = {"benchmarks": list_benchmarks, "datasets": list_datasets, "models": list_models}.get(kind)
    found = rows() if rows else list_runs(load_settings().home)
    if as_json:
        click.echo(json.dumps(dataset_cards() if kind == "datasets" else found, indent=1))
    else:
        show(found)


def cards_of(package: ModuleType, marker: str) -> list[Any]:
    """Declarations of a catalog."""
    from tuneloop.tools.registry import declared  # catalogs are heavy, and runs are listed without them

    return [card for card, _ in declared(package, marker).values()]


def list_benchmarks() -> list[Row]:
    """Registered benchmarks."""
    from tuneloop.tools import benchmarks

    cards = cards_of(benchmarks, "BENCHMARK")
    return [{"name": c.name, "domain": c.domain, "metric": c.metric, "description": c.description} for c in cards]


def list_datasets() -> list[Row]:
    """Registered data sets."""
    shown = ("name", "domain", "licence", "description")
    return [{key: str(card[key]) for key in shown} for card in dataset_cards()]


def dataset_cards() -> list[dict[str, Any]]:
    """All that is told of the registered data sets."""
    from tuneloop.tools import datasets

    return [card.model_dump(mode="json") for card in datasets.cards().values()]


def list_models() -> list[Row]:
    """Registered base models."""
    from tuneloop.tools import models

    cards = cards_of(models, "MODEL")
    return [{"name": c.name, "licence": c.licence, "description": c.description} for c in cards]


def list_runs(home: Home) -> list[Row]:
    """Runs, newest first."""
    return [listed(run) for run in runs(home)]


def listed(run: RunFolder) -> Row:
    """One run; a manifest that cannot be read is said in its place."""
    try:
        spec = read_spec(run)
    except SetupError as e:
        return {"name": run.id, "state": "unreadable", "benchmark": str(e), "base_model": ""}
    return {"name": run.id, "state": run_state(run), "benchmark": spec.benchmark, "base_model": spec.base_model}


def show(rows: list[Row]) -> None:
    """The rows as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not rows:
        console.print("none")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in rows[0]:
        table.add_column(name, no_wrap=name == "name")
    for row in rows:
        table.add_row(*(Text(clean(value, 200)) for value in row.values()))
    console.print(table)
