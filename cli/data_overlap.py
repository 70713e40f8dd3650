"""`tuneloop data overlap`: rows of a data set that hold items of a benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import json_text
from tuneloop.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
    from tuneloop.tools.contamination.dataset_search import OverlapCounts
    from tuneloop.tools.raw_data.client import FileEnd

SHOWN, WIDTH = 20, 120


@click.command()
@click.argument("dataset")
@click.option("--benchmark", required=True, help="Whose items to look for; several with commas.")
@click.option("--drop-overlaps", is_flag=True, help="Write the other rows to --out instead of refusing.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="JSON Lines file for the other rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
def overlap(dataset: str, benchmark: str, drop_overlaps: bool, out: Path | None, as_json: bool) -> None:
    """Look for items of benchmarks in DATASET, a folder, a file or a data set's name, in whatever dress.

    Where a key or column stands twice every value is looked at; rows that are written have the earlier ones as `name.1`.
    Rows with validation items are shown. Of the sealed test, and of the validation half that agents do not see, only numbers
    are. Exit code 0 when there are none or they were dropped, else 2.
    """
    from tuneloop.tools.contamination.dataset_search import search_dataset
    from tuneloop.tools.contamination.splits import make_guard
    from tuneloop.tools.hub import datasets
    from tuneloop.tools.raw_data.client import FileEnd
    from tuneloop.tools.raw_data.files import record_files

    if drop_overlaps != (out is not None):
        raise click.UsageError("--drop-overlaps and --out FILE go together")
    settings = load_settings()
    folders = resolve_benchmarks(benchmark, settings)
    root = datasets.resolve_dataset(dataset, settings.home, settings).root
    ends = {str(p.relative_to(root)) if p != root else p.name: (p, FileEnd()) for p in record_files(root)}
    files = {name: every_row(root, path, end) for name, (path, end) in ends.items()}
    found = search_dataset(files, make_guard(folders, None), out)
    click.echo(json_text(finite_values(overlap_facts(found))).rstrip() if as_json else "\n".join(overlap_lines(found)))
    for name in (name for name, (_, end) in ends.items() if end.partial):
        click.echo(
            f"{name} holds more than its rows: the longest list of objects in it was looked at",
            err=True,
        )
    if found.counts and not drop_overlaps:
        raise InvalidRequestError(
            f"{dataset}: of {found.rows} rows {found.of('validation')} hold validation items; {found.of('unseen')} hold items of "
            f"the validation half that is not shown and {found.of('test')} hold test items, which are not named; "
            "--drop-overlaps --out FILE writes the others"
        )


def finite_values(value: Any) -> Any:
    """The value with null for NaN and infinity, which JSON has not."""
    if isinstance(value, dict):
        return {name: finite_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite_values(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def every_row(root: Path, path: Path, end: FileEnd) -> Iterator[dict[str, Any]]:
    """The rows of a file. Raises InvalidRequestError for one that nobody could look at."""
    from tuneloop.tools.raw_data.client import shared_reader

    for line in shared_reader().rows(root, path, end, every_value=True):
        if line.row is None:
            raise InvalidRequestError(
                f"{path}: row {line.line} is none, or nested too deeply; right is a file without it"
            )
        yield line.row
    if end.trouble:
        raise InvalidRequestError(f"{path}: {end.trouble}")


def resolve_benchmarks(names: str, settings: Settings) -> tuple[BenchmarkFolder, ...]:
    """The benchmarks of a list with commas, families by their parts. Raises InvalidRequestError."""
    from tuneloop.tools.benchmark_items import resolve

    several = [part for name in names.split(",") if name.strip() for part in family_members(name.strip())]
    if not several:
        raise InvalidRequestError("--benchmark is empty: right is a benchmark's name or folder, several with commas")
    return tuple(resolve.resolve_benchmark(name, settings.home, None, settings) for name in dict.fromkeys(several))


def family_members(name: str) -> tuple[str, ...]:
    """The benchmarks that a name stands for."""
    from tuneloop.tools.benchmark_items import resolve

    return resolve.family_members(name) or (name,)


def overlap_facts(found: OverlapCounts) -> dict[str, Any]:
    """What may be known, as JSON: counts, and rows with validation items."""
    counts: dict[str, dict[str, int]] = {}
    for (name, split), count in sorted(found.counts.items()):
        counts.setdefault(name, {"validation": 0, "unseen": 0, "test": 0})[split] = count
    rows = [
        {"file": name, "row": number, "benchmark": hit.benchmark, "item": hit.id, "text": row}
        for name, number, hit, row in found.validation
    ]
    return {"rows": found.rows, "overlaps": counts, "validation": rows}


def overlap_lines(found: OverlapCounts) -> list[str]:
    """The same for people, the first rows alone."""
    from tuneloop.core.formatting import printable

    counts = [f"{name} {split}: {count}" for (name, split), count in sorted(found.counts.items())]
    rows = [
        f"{name} row {number} holds {hit.benchmark} {hit.id}: {printable(json.dumps(row, ensure_ascii=False), WIDTH)}"
        for name, number, hit, row in found.validation[:SHOWN]
    ]
    more = found.of("validation") - len(rows)
    rest = [f"and {more} more"] if more else []
    return [f"{found.rows} rows; with items of {', '.join(counts) or 'no benchmark'}", *rows, *rest]
