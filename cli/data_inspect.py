"""`tuneloop data inspect`: what a data set holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from tuneloop.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from tuneloop.tools.inspecting.facts import Inspection

LONG = 20_000_000  # bytes: what is smaller is read before a bar would be seen
BROKEN = 3


@click.command()
@click.argument("name", metavar="PATH|NAME")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
@click.option("--tokenizer", metavar="MODEL", help="Count tokens too, with this model's tokenizer (a sample's).")
def inspect(name: str, as_json: bool, tokenizer: str | None) -> None:
    """Show what PATH (a folder or a file) or the data set NAME holds: every row is read, columns are summed.

    Rows, broken lines with their places, exact duplicates; types, empty and different values, lengths, range of every
    column; how good the reasoning is, measured. JSON, JSON Lines, CSV, TSV, text, Parquet and Arrow, packed or not.
    Exit code 3: some lines are broken, or a file could not be read to its end.
    """
    from tuneloop.cli.data_views import show  # heavy, and the group's help needs none of it
    from tuneloop.tools import datasets
    from tuneloop.tools.inspecting.inspect import inspect as look

    settings = load_settings()
    model = tokenizer_folder(tokenizer, settings) if tokenizer else None
    root = datasets.resolve(name, settings.home, settings).root
    with bar(root) as progress:
        found = look(root, "" if Path(name).exists() else name, model, progress)
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        show(found, Console())
    sys.exit(BROKEN if is_broken(found) else 0)


def is_broken(found: Inspection) -> bool:
    """Whether a line, or a whole file, could not be read as rows."""
    files = [*(f for part in found.parts for f in part.files), *found.empty_files]
    return any(f.broken or f.trouble for f in files)


def tokenizer_folder(model: str, settings: Settings) -> Path:
    """The model's folder, fetched when it is not there yet. Raises SetupError."""
    from tuneloop.tools import models

    return models.resolve(model, settings, lambda *_: None).root


@contextmanager
def bar(root: Path) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr, in a terminal, where much is to be read."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from tuneloop.core.wording import clean
    from tuneloop.tools.profiling import sources

    console = Console(stderr=True)
    if not console.is_terminal or sum(p.stat().st_size for p in sources(root)) < LONG:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading")

        def tell(file: str, done: int, total: int) -> None:
            progress.update(task, description=clean(file, 40), completed=done, total=total)

        yield tell
