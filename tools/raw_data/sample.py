"""Rows from all over a data set, evenly spread, the same every time; and values cut to what can be shown."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeVar

MOST_ROWS = 1000
MOST_CHARACTERS = 32 << 20  # held at a time
LONGEST = 100_000  # characters of one text that are held
DEEPEST, WIDEST = 12, 50

Row = dict[str, Any]
T = TypeVar("T")


class RowSample:
    """Every n-th row, n doubled when too many are held."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.most, self.every, self.seen, self.held = most, 1, 0, 0
        self._kept: list[tuple[str, Row, int]] = []

    def add(self, file: str, numbers: Sequence[int], rows: Sequence[Row]) -> None:
        """Look at a batch of a file; `numbers` are the rows' lines."""
        for i in range(-self.seen % self.every, len(rows), self.every):
            row, size = bound_row(rows[i])
            self._kept.append((f"{file}:{numbers[i]}", row, size))
            self.held += size
        self.seen += len(rows)
        self._thin()

    def _thin(self) -> None:
        while len(self._kept) > 2 * self.most or (self.held > MOST_CHARACTERS and len(self._kept) > 1):
            self._kept = self._kept[::2]
            self.every *= 2
            self.held = sum(size for _, _, size in self._kept)

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        kept = [(place.rpartition(":")[2], row, size) for place, row, size in self._kept]
        return {"every": self.every, "seen": self.seen, "kept": kept}

    def merge(self, state: dict[str, Any], file: str, before: int) -> None:
        """Take in the sample of a file's rest, whose lines are counted from 1 after the first `before`."""
        every = max(self.every, state["every"])
        rest = [(f"{file}:{int(line) + before}", row, size) for line, row, size in state["kept"]]
        self._kept = self._kept[:: every // self.every] + rest[:: every // state["every"]]
        self.every, self.seen = every, self.seen + state["seen"]
        self.held = sum(size for _, _, size in self._kept)
        self._thin()

    def rows(self, most: int | None = None) -> list[tuple[str, Row]]:
        """At most so many, from first to last: `file:line` and the row."""
        return [(place, row) for place, row, _ in spread_evenly(self._kept, most or self.most)]


def spread_evenly(values: Sequence[T], most: int) -> list[T]:
    """At most so many, evenly from first to last."""
    count = min(most, len(values))
    return [values[i * len(values) // count] for i in range(count)]


def bound_row(row: Row) -> tuple[Row, int]:
    """The row with very long texts cut, and how many characters it holds; an untouched row is not copied."""
    size = sum(len(value) if type(value) is str else 40 for value in row.values())
    if any(type(value) is str and len(value) > LONGEST for value in row.values()):
        row = {name: value[:LONGEST] if type(value) is str else value for name, value in row.items()}
        size = min(size, LONGEST * len(row))
    return row, size


def bound_value(value: Any, longest: int, depth: int = 0) -> Any:
    """A value as plain JSON: texts cut at `longest`, lists at 50 elements, what JSON has not as text."""
    if isinstance(value, str):
        whole = value.encode("utf-8", "replace").decode() if not value.isascii() else value
        return whole if len(whole) <= longest else whole[:longest] + f"… ({len(whole)} characters)"
    if isinstance(value, dict) and depth < DEEPEST:
        return {str(name)[:200]: bound_value(inner, longest, depth + 1) for name, inner in list(value.items())[:WIDEST]}
    if isinstance(value, list | tuple) and depth < DEEPEST:
        more = [f"… ({len(value)} elements)"] if len(value) > WIDEST else []
        return [bound_value(inner, longest, depth + 1) for inner in value[:WIDEST]] + more
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return bound_value(plain_text(value), longest, depth)


def plain_text(value: Any) -> str:
    """Times as ISO, decimals as they are written, anything else as Python shows it."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | int) else repr(value)
