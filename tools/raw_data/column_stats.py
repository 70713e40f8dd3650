"""Counts that grow with every batch of rows: one sum for each path inside them, nested ones included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from xxhash import xxh3_64_intdigest

from tuneloop.tools.raw_data.accumulators import U64, DistinctCount, LengthHistogram, ValueRange
from tuneloop.tools.raw_data.facts import ColumnFacts

MOST_COLUMNS = 200
MOST_DEPTH = 12
MOST_ROWS = 1 << 24  # row hashes kept: 128 MB
LONGEST_NUMBER = 32
NAMES = {str: "text", int: "integer", float: "number", bool: "bool", dict: "object", list: "list", bytes: "bytes"}
SEEDS = {int: np.uint64(0x9E3779B97F4A7C15), float: np.uint64(0xD1B54A32D192ED03), bool: np.uint64(0x8CB92BA72F3D8DD7)}
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
ABSENT = object()
NONE = type(None)


class ColumnCounts:
    """What is known of one path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.kinds: Counter[str] = Counter()
        self.empty = 0
        self.distinct = DistinctCount()
        self.characters, self.items = LengthHistogram(), LengthHistogram()
        self.numbers, self.written = ValueRange(), ValueRange()  # of numbers, of numbers written as texts
        self.numeric = True  # all texts so far
        self.factor = np.uint64(xxh3_64_intdigest(path.encode("utf-8", "replace")) | 1)

    def texts(self, values: Sequence[str]) -> U64:
        """Take texts in; returns their hashes."""
        self.kinds["text"] += len(values)
        sizes = list(map(len, values))
        self.characters.add(sizes)
        blank = sizes.count(0) + sum(map(str.isspace, values))
        self.empty += blank
        if self.numeric:
            self.numeric = self.measured([v for v in values if not v.isspace() and v] if blank else values, max(sizes))
        try:
            found = list(map(xxh3_64_intdigest, map(str.encode, values)))
        except UnicodeEncodeError:  # half of a surrogate pair
            found = [xxh3_64_intdigest(value.encode("utf-8", "surrogatepass")) for value in values]
        return np.array(found, np.uint64)

    def measured(self, values: Sequence[str], longest: int) -> bool:
        """Whether all are numbers, which then count for the range."""
        if longest > LONGEST_NUMBER:
            return False
        try:
            self.written.add(list(map(float, values)))
        except ValueError:
            return False
        return True

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        return {
            "kinds": self.kinds, "empty": self.empty, "numeric": self.numeric,
            "numbers": self.numbers.ends(), "written": self.written.ends(),
            "distinct": self.distinct.state(), "characters": self.characters.state(), "items": self.items.state(),
        }  # fmt: skip

    def merge(self, state: dict[str, Any]) -> None:
        """Take in what another one has seen."""
        self.kinds.update(state["kinds"])
        self.empty += state["empty"]
        self.numeric = self.numeric and state["numeric"]
        self.numbers.add(state["numbers"])
        self.written.add(state["written"])
        self.distinct.merge(state["distinct"])
        self.characters.merge(state["characters"])
        self.items.merge(state["items"])

    def facts(self, places: int, examples: Sequence[str] = ()) -> ColumnFacts:
        """All of it; `places` is how many values there could be."""
        absent = places - self.kinds.total()
        written = self.written.ends() if self.numeric else ()
        span = ValueRange()
        span.add((*self.numbers.ends(), *written))
        return ColumnFacts(
            path=self.path,
            kinds={name: count for name, count in self.kinds.most_common() if count},
            places=places,
            empty=self.empty + absent,
            distinct=self.distinct.count,
            exact=self.distinct.exact,
            characters=self.characters.spread(),
            items=self.items.spread(),
            low=span.low,
            high=span.high,
            numeric_text=bool(written),
            examples=tuple(examples),
        )


class TableCounts:
    """The columns of rows, taken in batch by batch."""

    def __init__(self) -> None:
        self.columns: dict[str, ColumnCounts] = {}
        self.places: Counter[str] = Counter()
        self.left_out: set[str] = set()
        self.distinct = DistinctCount(MOST_ROWS)
        self.rows = 0

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take rows in."""
        if rows:
            self.rows += len(rows)
            self.distinct.add(self.objects("", rows, 0))

    def objects(self, above: str, rows: Sequence[dict[str, Any]], depth: int) -> U64:
        """Objects at a path; returns a hash each that does not depend on the order of the names."""
        self.places[above] += len(rows)
        shapes = set(map(tuple, rows))
        whole: Iterable[tuple[str, Sequence[Any]]]
        if len(shapes) == 1:
            whole = zip(next(iter(shapes)), zip(*map(dict.values, rows), strict=True), strict=True)
        else:
            names = dict.fromkeys(chain.from_iterable(shapes))
            whole = ((name, [row.get(name, ABSENT) for row in rows]) for name in names)
        hashes = np.zeros(len(rows), np.uint64)
        for name, values in whole:
            path = child_path(above, name)
            hashes += self.values(path, values, depth) * self.factor(path)
        return hashes

    def factor(self, path: str) -> np.uint64:
        """What tells equal values of two columns apart."""
        column = self.columns.get(path)
        return column.factor if column else np.uint64(1)

    def column(self, path: str) -> ColumnCounts | None:
        """The sum of a path; None where there are too many."""
        column = self.columns.get(path)
        if column is None:
            if len(self.columns) >= MOST_COLUMNS:
                if len(self.left_out) < 10 * MOST_COLUMNS:
                    self.left_out.add(path)
                return None
            column = self.columns[path] = ColumnCounts(path)
        return column

    def values(self, path: str, values: Sequence[Any], depth: int) -> U64:
        """Values of one path, of whatever types; returns a hash each, 0 for nothing."""
        kinds = set(map(type, values))
        column = self.column(path)
        if column is None:
            return np.array([hash_value(value) for value in values], np.uint64)
        if len(kinds) == 1:
            hashes = self.of_kind(column, kinds.pop(), values, depth)
            column.distinct.add(hashes if hashes.any() else hashes[:0])
            return hashes
        hashes = np.zeros(len(values), np.uint64)
        for kind in kinds:
            at = [i for i, value in enumerate(values) if type(value) is kind]
            hashes[at] = self.of_kind(column, kind, [values[i] for i in at], depth)
        column.distinct.add(hashes[hashes != 0])
        return hashes

    def of_kind(self, column: ColumnCounts, kind: type, values: Sequence[Any], depth: int) -> U64:
        """Values of one type."""
        if kind is str:
            return column.texts(values)
        if kind is object:
            return np.zeros(len(values), np.uint64)
        if kind is NONE:
            column.kinds["null"] += len(values)
            column.empty += len(values)
            return np.zeros(len(values), np.uint64)
        column.kinds[NAMES.get(kind, kind.__name__)] += len(values)
        if kind in (int, float, bool):
            if kind is not bool:
                column.numbers.add(values)
            return hash_numbers(values, kind)
        if kind is dict:
            column.empty += sum(not value for value in values)
            if depth < MOST_DEPTH:
                return self.objects(column.path, values, depth + 1) | np.uint64(1)
        elif kind is list:
            self.lists(column, values, depth)
        return np.array(list(map(hash_value, values)), np.uint64)

    def lists(self, column: ColumnCounts, values: Sequence[list[Any]], depth: int) -> None:
        """Lists: their lengths, and their elements as a column of their own."""
        sizes = list(map(len, values))
        column.items.add(sizes)
        column.empty += sizes.count(0)
        if (inner := list(chain.from_iterable(values))) and depth < MOST_DEPTH:
            path = column.path + "[]"
            self.places[path + "#"] += len(inner)
            self.values(path, inner, depth + 1)

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        columns = {path: column.state() for path, column in self.columns.items()}
        sums = {"rows": self.rows, "places": self.places, "left_out": sorted(self.left_out)}
        return {**sums, "columns": columns, "distinct": self.distinct.state()}

    def merge(self, state: dict[str, Any]) -> None:
        """Take in what another one has seen."""
        self.rows += state["rows"]
        self.places.update(state["places"])
        self.left_out.update(state["left_out"])
        self.distinct.merge(state["distinct"])
        for path, held in state["columns"].items():
            column = self.column(path)
            if column is not None:
                column.merge(held)

    def places_of(self, path: str) -> int:
        """How many values a path could have: as many as there are objects, or elements of lists, above it."""
        return self.places[path + "#"] if path.endswith("[]") else self.places[parent_path(path)]


def child_path(above: str, name: str) -> str:
    """The path of a name in an object; one with a dot in it is quoted."""
    shown = name if "." not in name else f'"{name}"'
    return f"{above}.{shown}" if above else shown


def parent_path(path: str) -> str:
    """The path of the object that holds it."""
    if path.endswith('"'):
        return path[: max(0, path.rindex('"', 0, -1) - 1)]
    return path.rpartition(".")[0]


def hash_numbers(values: Sequence[float], kind: type) -> U64:
    """Hashes of numbers; 1, 1.0 and true differ."""
    try:
        bits = (
            np.array(values, np.float64).view(np.uint64)
            if kind is float
            else np.array(values, np.int64).view(np.uint64)
        )
    except OverflowError:  # some are beyond 64 bits; the others have the hash that they have alone
        each = (hash_numbers([v], kind)[0] if -(1 << 63) <= v < 1 << 63 else hash_value(v) for v in values)
        return np.array(list(each), np.uint64)
    bits = (bits + SEEDS[kind]) * MIX[0]
    bits ^= bits >> np.uint64(32)
    bits *= MIX[1]
    return np.asarray(bits ^ (bits >> np.uint64(29)))


def hash_value(value: Any) -> int:
    """The same for equal values of the same type."""
    if value is None or value is ABSENT:
        return 0
    try:
        return xxh3_64_intdigest(orjson.dumps(value, None, orjson.OPT_SORT_KEYS))
    except TypeError:
        return xxh3_64_intdigest(repr(value).encode("utf-8", "surrogatepass"))
