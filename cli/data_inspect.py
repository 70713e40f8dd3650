"""`tuneloop data inspect`: what a data set holds."""

from __future__ import annotations

import json

import click

from tuneloop.core.settings import load_settings


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
def inspect(name: str, as_json: bool) -> None:
    """Show the files of NAME, a folder, a file or a data set's name, and how many rows they hold."""
    from tuneloop.cli.list import show
    from tuneloop.tools import datasets
    from tuneloop.tools.profiling import records, sources

    settings = load_settings()
    root = datasets.resolve(name, settings.home, settings).root
    found = [{"file": str(p.relative_to(root.parent)), "rows": str(sum(1 for _ in records(p)))} for p in sources(root)]
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        show(found)
