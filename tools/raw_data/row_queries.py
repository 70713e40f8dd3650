"""Questions about single rows of a data set: a column's values, rows that hold a text, rows that repeat."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.text import normalise
from tuneloop.tools.data_gate.duplicates import DuplicateIndex
from tuneloop.tools.data_gate.records import TrainingRow as Asked
from tuneloop.tools.raw_data.column_stats import TableCounts, hash_value
from tuneloop.tools.raw_data.facts import ColumnFacts
from tuneloop.tools.raw_data.prompt_injection import texts_in
from tuneloop.tools.raw_data.reader import RawFile

STEP = re.compile(r'"([^"]*)"|(\[\])|([^.\[\]]+)')
MOST_VALUES = 100_000  # different values that are counted at a time
LONGEST_VALUE = 200
MOST_COMPARED = 200_000
AROUND = 80

Row = dict[str, Any]
Files = Mapping[str, Path]


def rows_of(files: Files) -> Iterator[tuple[str, Row]]:
    """Every row of the files with its place, `file:line`."""
    for name, path in files.items():
        for numbers, rows in RawFile(path).batches():
            for number, row in zip(numbers, rows, strict=True):
                yield f"{name}:{number}", row


def values_at(value: Any, path: str) -> list[Any]:
    """All values at a path such as `meta.source`, `turns[].value`, `tags[]`, `"a.b".c`."""
    found = [value]
    for quoted, every, name in STEP.findall(path):
        if every:
            found = [inner for v in found if isinstance(v, list) for inner in v]
        else:
            key = quoted or name
            found = [v[key] for v in found if isinstance(v, dict) and key in v]
    return found


@dataclass(frozen=True)
class ColumnValues:
    """A column's facts, its most frequent values, and whether rare ones may be missing among them."""

    facts: ColumnFacts
    top: tuple[tuple[str, int], ...]
    counted: bool


def column_values(files: Files, path: str, most: int) -> ColumnValues | None:
    """Facts about one column of all rows; None where no row has it."""
    table, counts, counted, parents = TableCounts(), Counter[str](), True, 0
    for file in files.values():
        for _, rows in RawFile(file).batches():
            values = [value for row in rows for value in values_at(row, path)]
            parents += len(rows) if re.fullmatch(r'"[^"]*"|[^.\[\]]+', path) else len(values)
            if values:
                table.values(path, values, 0)
            counts.update(count_key(v) for v in values if isinstance(v, str | int | float | bool))
            if len(counts) > MOST_VALUES:
                counted = False
                counts = Counter(dict(counts.most_common(MOST_VALUES // 2)))
    column = table.columns.get(path)
    if column is None:
        return None
    return ColumnValues(column.facts(parents), tuple(counts.most_common(most)), counted)


def count_key(value: Any) -> str:
    """A value as it is counted."""
    return str(value)[:LONGEST_VALUE]


@dataclass(frozen=True)
class SearchHit:
    """A row that holds the text: where in it, and the words around."""

    where: str
    path: str
    around: str
    row: Row


def search_rows(files: Files, text: str, column: str, offset: int, count: int) -> tuple[list[SearchHit], int]:
    """Rows with the text in any case, in one column or anywhere; a page of them, and how many there are."""
    wanted, found, number = text.casefold(), [], 0
    for where, row in rows_of(files):
        places = ((column, v) for v in values_at(row, column)) if column else row.items()
        texts = (pair for path, value in places for pair in texts_in(value, path, numbers=True))
        hit = next(((path, held) for path, held in texts if wanted in held.casefold()), None)
        if hit is None:
            continue
        if offset <= number < offset + count:
            at = max(0, hit[1].casefold().find(wanted) - AROUND)
            found.append(SearchHit(where, hit[0], hit[1][at : at + len(text) + 2 * AROUND], row))
        number += 1
    return found, number


@dataclass(frozen=True)
class RepeatedRow:
    """Rows that are the same: how many, the first five places, and the text or row that they share."""

    count: int
    where: tuple[str, ...]
    shared: Any


@dataclass(frozen=True)
class Duplicates:
    """Of `compared` rows; `whole` says that these were all. `near`: beside the repeats, rows nearly like an earlier one."""

    compared: int
    whole: bool
    repeats: tuple[RepeatedRow, ...]
    repeated: int
    near: int
    first_near: tuple[str, str] | None


def find_duplicates(files: Files, column: str, most: int = MOST_COMPARED) -> Duplicates:
    """Repeated rows, by one column (without case, punctuation and spacing) or by all of them (exactly)."""
    stream = rows_of(files)
    groups: dict[Any, list[Any]] = {}
    near, places, repeated = DuplicateIndex(), [], 0
    for where, row in itertools.islice(stream, most):
        places.append(where)
        texts = texts_in(values_at(row, column), numbers=True) if column else texts_in(row)
        text = "\n".join(t for path, t in texts if not path.endswith("(name)"))
        if column and not text.strip():
            continue
        key = hash_value(normalise(text) or text) if column else hash_value(row)
        group = groups.setdefault(key, [0, [], text if column else row])
        group[0] += 1
        if len(group[1]) < 5:
            group[1].append(where)
        if group[0] == 1 and text.strip():
            near.add([Asked((text,), ("",), {})], [len(places)])
        repeated += group[0] > 1
    found = near.found()
    chosen = sorted((g for g in groups.values() if g[0] > 1), key=lambda g: -g[0])
    first = (places[found.first[0] - 1], places[found.first[1] - 1]) if found.first else None
    return Duplicates(
        compared=len(places),
        whole=next(stream, None) is None,
        repeats=tuple(RepeatedRow(count, tuple(where), shared) for count, where, shared in chosen),
        repeated=repeated,
        near=found.near,
        first_near=first,
    )
