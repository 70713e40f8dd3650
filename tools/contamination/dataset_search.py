"""Search the files of a data set for items of benchmarks, row by row; write the rows that hold none, when asked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from typing import Any

from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import Hit
from tuneloop.tools.raw_data.wire import dump_row

MOST = 1000
Row = dict[str, Any]
Place = tuple[str, int, Row]


@dataclass
class OverlapCounts:
    """Counts by benchmark and split; of rows with validation items shown the first places (file, row from 1) and rows."""

    rows: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    validation: list[tuple[str, int, Hit, Row]] = field(default_factory=list)

    def of(self, split: str) -> int:
        """Rows that overlap with a split of any benchmark."""
        return sum(count for (_, found), count in self.counts.items() if found == split)


def search_dataset(files: Mapping[str, Iterable[Row]], guard: Guard, out: Path | None = None) -> OverlapCounts:
    """Look at every row of the files, by name; `out` (JSON Lines) gets the rows without an overlap, whole or not at all."""
    found = OverlapCounts()
    part = out and out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with ExitStack() as stack:
            target = stack.enter_context(part.open("wb")) if part else None
            rows, again = tee(_places(files))
            for (name, number, row), hit in zip(rows, guard.find(row for *_, row in again), strict=True):
                found.rows += 1
                if hit:
                    _note(found, name, number, hit, row)
                elif target:
                    target.write((dump_row(row) or b"") + b"\n")
        if part and out:
            part.replace(out)
    finally:
        if part:
            part.unlink(missing_ok=True)
    return found


def _places(files: Mapping[str, Iterable[Row]]) -> Iterator[Place]:
    return ((name, number, row) for name, rows in files.items() for number, row in enumerate(rows, 1))


def _note(found: OverlapCounts, name: str, number: int, hit: Hit, row: Row) -> None:
    found.counts[hit.benchmark, hit.split] += 1
    if hit.split == "validation" and len(found.validation) < MOST:
        found.validation.append((name, number, hit, row))
