"""Paths of the values inside records, and the groups of like records inside a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ROLES = ("role", "from", "speaker", "author")
GROUP_FIELDS = (
    "source",
    "subset",
    "origin",
    "dataset",
    "data_source",
    "provider",
    "collection",
    "task",
    "kind",
    "type",
    "category",
)
MOST_GROUPS = 12

Record = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Like records of one file; `where` as in `SourceProfile.where`."""

    where: str
    records: Sequence[Record]


def flatten(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """Every leaf with its path, in the language of `core.records.pick`; lists of plain values are leaves."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name and not set(name) & set(".[]|"):
                yield from flatten(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        yield from flatten_parts(value, path)
    elif isinstance(value, list):
        yield path + "[]", value
    else:
        yield path, value


def flatten_parts(parts: Sequence[Record], path: str) -> Iterable[tuple[str, Any]]:
    """A list of objects: by role where it is a conversation (first turn of each role), else the first four by number."""
    role = next((name for name in ROLES if all(isinstance(part.get(name), str) for part in parts)), None)
    seen: set[str] = set()
    for i, part in enumerate(parts if role else parts[:4]):
        index = f"{role}={part[role]}" if role else str(i)
        if index not in seen:
            seen.add(index)
            yield from flatten({k: v for k, v in part.items() if k != role}, f"{path}[{index}]")


def filled(record: Record) -> frozenset[str]:
    """Top-level fields that hold something."""
    return frozenset(k for k, v in record.items() if v not in (None, "", [], {}))


def groups(records: Sequence[Record]) -> list[Group]:
    """One group, or several where the file mixes records of different shapes or of different `source`s."""
    shapes = Counter(filled(r) for r in records)
    if not records or alike(list(shapes)):
        return [Group("", records)] if not (field := divider(records)) else by_field(records, field)
    if field := divider(records):
        return by_field(records, field)
    return by_shape(records, shapes)


def alike(shapes: Sequence[frozenset[str]]) -> bool:
    """Whether all shapes share most of their fields with the largest."""
    largest = max(shapes, key=len)
    return all(len(shape & largest) >= 0.5 * len(shape | largest) or shape <= largest for shape in shapes)


def divider(records: Sequence[Record]) -> str | None:
    """A field such as `source` with a few frequent values that says where each record is from."""
    for name in GROUP_FIELDS[:7]:
        values = [r.get(name) for r in records]
        if not all(isinstance(v, str) and v and len(v) < 60 for v in values):
            continue
        if 1 < len(counts := Counter(values)) <= MOST_GROUPS and min(counts.values()) >= 5:
            return name
    return None


def by_field(records: Sequence[Record], field: str) -> list[Group]:
    """A group for each value of a field, the largest first."""
    values = Counter(str(r[field]) for r in records)
    return [Group(f"{field}={v}", [r for r in records if str(r[field]) == v]) for v, _ in values.most_common()]


def by_shape(records: Sequence[Record], shapes: Counter[frozenset[str]]) -> list[Group]:
    """Groups by the field that only one kind of record has; records that fit nowhere stay with the first group."""
    seeds: list[frozenset[str]] = []
    for shape, _ in shapes.most_common():
        if all(len(shape & seed) < 0.5 * len(shape | seed) for seed in seeds) and len(seeds) < MOST_GROUPS:
            seeds.append(shape)
    found = []
    for i, seed in enumerate(seeds):
        own = sorted(seed.difference(*(other for j, other in enumerate(seeds) if j != i)))
        if own:
            mark = max(own, key=lambda name: sum(name in filled(r) for r in records))
            found.append(Group(f"has={mark}", [r for r in records if mark in filled(r)]))
    return found or [Group("", records)]
