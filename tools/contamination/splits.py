"""The guard of benchmarks whose items are there: both halves of validation and sealed test of each."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, Validation, sealed_items, select_validation
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem, KnownSplit


@functools.lru_cache(maxsize=4)
def make_guard(benchmarks: tuple[BenchmarkFolder, ...], limit: int | None) -> Guard:
    """Knows all splits of the benchmarks; made once. `limit`: validation items that the run measures of each, None: all."""
    return _guard(benchmarks, tuple(frozenset(one.id for one in divide_validation(b, limit).shown) for b in benchmarks))


@functools.lru_cache(maxsize=4)
def _guard(benchmarks: tuple[BenchmarkFolder, ...], shown: tuple[frozenset[str], ...]) -> Guard:
    """Made once for all limits that show the same items."""
    known: list[KnownItem] = []
    for folder, ids in zip(benchmarks, shown, strict=True):
        every = select_validation(folder).every
        known += known_items(folder.benchmark, "validation", (item for item in every if item.id in ids))
        known += known_items(folder.benchmark, "unseen", (item for item in every if item.id not in ids))
        known += known_items(folder.benchmark, "test", sealed_items(folder))
    return Guard(known)


def divide_validation(folder: BenchmarkFolder, limit: int | None) -> Validation:
    """All validation items, those that a run with this limit does not measure too; `shown`: those that may be shown.

    A run with few items shows all that it measures, also those of the unseen half.
    """
    whole = select_validation(folder)
    shown = {item.id for found in (whole, select_validation(folder, limit)) for item in found.shown}
    return Validation(
        tuple(item for item in whole.every if item.id in shown),
        tuple(item for item in whole.every if item.id not in shown),
    )


def known_items(benchmark: Benchmark, split: KnownSplit, found: Iterable[Item]) -> list[KnownItem]:
    """Items of one split as the guard wants them; only the fields that the prompt shows."""
    return [
        KnownItem(
            benchmark.name,
            split,
            item.id,
            {name: text for name, text in item.fields.items() if f"{{{name}}}" in benchmark.prompt} or item.fields,
            item.answer,
        )
        for item in found
    ]


def check_benchmarks_disjoint(benchmarks: Sequence[BenchmarkFolder]) -> None:
    """Refuse benchmarks of which one measures as validation what another's sealed test asks, or shows what it hides.

    Raises InvalidRequestError.
    """
    for sealed in benchmarks if len(benchmarks) > 1 else ():
        test = Guard(known_items(sealed.benchmark, "test", sealed_items(sealed)))
        unseen = Guard(known_items(sealed.benchmark, "unseen", select_validation(sealed).unseen))
        for other in (other for other in benchmarks if other is not sealed):
            found = select_validation(other)
            for guard, items, where in (
                (test, found.every, "sealed test"),
                (unseen, found.shown, "validation half that is not shown"),
            ):
                if count := sum(hit is not None for hit in guard.find(item.fields for item in items)):
                    raise InvalidRequestError(
                        f"benchmarks {other.benchmark.name} and {sealed.benchmark.name}: {count} validation items of the "
                        f"first are in the {where} of the second; right is one of them in a run"
                    )
