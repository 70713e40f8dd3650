"""The guard of benchmarks whose items are there: validation and sealed test of each."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from tuneloop.core.benchmark import Benchmark, Item, Split
from tuneloop.core.errors import SetupError
from tuneloop.tools.benchmarks import BenchmarkFolder, items, sealed_items
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.known import Known


@functools.lru_cache(maxsize=4)
def guard_of(benchmarks: tuple[BenchmarkFolder, ...]) -> Guard:
    """Knows all splits of the benchmarks; made once."""
    known: list[Known] = []
    for folder in benchmarks:
        known += known_items(folder.benchmark, "validation", items(folder, "validation"))
        known += known_items(folder.benchmark, "test", sealed_items(folder))
    return Guard(known)


def known_items(benchmark: Benchmark, split: Split, found: Iterable[Item]) -> list[Known]:
    """Items of one split as the guard wants them; only the fields that the prompt shows."""
    return [
        Known(
            benchmark.name,
            split,
            item.id,
            {name: text for name, text in item.fields.items() if f"{{{name}}}" in benchmark.prompt} or item.fields,
            item.answer,
        )
        for item in found
    ]


def check_apart(benchmarks: Sequence[BenchmarkFolder]) -> None:
    """Refuse benchmarks of which one shows, as validation, what another's sealed test asks. Raises SetupError."""
    for sealed in benchmarks if len(benchmarks) > 1 else ():
        guard = Guard(known_items(sealed.benchmark, "test", sealed_items(sealed)))
        for other in benchmarks:
            shown = () if other is sealed else items(other, "validation")
            count = sum(hit is not None for hit in guard.find(item.fields for item in shown))
            if count:
                raise SetupError(
                    f"benchmarks {other.benchmark.name} and {sealed.benchmark.name}: {count} validation items of the first "
                    "are in the sealed test of the second; right is one of them in a run"
                )
