"""Paths of the values inside records, and the groups of like records inside a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tuneloop.core.records import text_of

# One path of a source with its values, and what names of fields usually mean.

QUESTION = re.compile(
    r"(^|[._=])(question|prompt|problem|query|instruction|input|q|human|user|ask|text|task|body|message|sentence|frage|stem)s?\d*\b"
)
SOLUTION = re.compile(
    r"(^|[._=])(solution|output|response|completion|exp|expl\w*|rationale|reason\w*|support|working|answer|assistant|gpt|model|bot|reply|a|"
    r"worked\w*|cot|thought|target|chosen|antwort|text)s?\b"
)
EXPLAINS = re.compile(
    r"(^|[._])(exp|expl\w*|rationale|reason\w*|solution|worked\w*|working|cot|steps|thoughts?|support|proof)\b"
)
KEY = re.compile(
    r"(^|[._=])(answer|key|label|target|gold|final\w*|correct\w*|category|class|a|result|solution|output|response|truth|intent)s?\b"
)
META = re.compile(
    r"(^|[._])(id|idx|index|uuid|url|date|time\w*|lang\w*|likes|score|rating|temperature|source|split|grade|level|votes|hash)\b"
)
CONTEXT = re.compile(
    r"(^|[._=])(context|passage|input|document|article|table|premise|hypothesis|background|story|sentence\d|subject|title)\b"
)
VERDICT = re.compile(r"(^|[._])(is_?)?(correct|verified|valid|accepted|approved|checked|right|reviewed_ok|passed)\b")
YES, NO = frozenset({"true", "1", "yes", "y"}), frozenset({"false", "0", "no", "n"})
MARKS = (
    "\n### Response:",
    "### Assistant:",
    "\nAnswer:",
    "\nA:",
    "\nSolution:",
    "\nAssistant:",
    "[/INST]",
    "\nBot:",
    "Answer:",
    "\nOutput:",
)


@dataclass(frozen=True)
class FieldColumn:
    """One path of a source with the sampled records' values."""

    path: str
    values: Sequence[Any]

    @cached_property
    def texts(self) -> list[str]:
        """Values as texts, the empty ones left out."""
        return [text for text in map(text_of, self.values) if text]

    @cached_property
    def length(self) -> float:
        """Mean characters."""
        return sum(map(len, self.texts)) / len(self.texts) if self.texts else 0.0

    @cached_property
    def distinct(self) -> float:
        """Share of different texts."""
        return len(set(self.texts)) / len(self.texts) if self.texts else 0.0

    @property
    def steps(self) -> bool:
        """A list of texts that are the steps of a solution, by name and by number."""
        lists = [v for v in self.values if isinstance(v, list)]
        many = sum(len(v) > 1 and all(isinstance(part, str) for part in v) for v in lists)
        return self.is_list and self.named(EXPLAINS) and many > 0.3 * len(lists)

    @property
    def is_list(self) -> bool:
        """A list of plain values."""
        return self.path.endswith("[]")

    def named(self, pattern: re.Pattern[str]) -> bool:
        """Whether the path's last name says so."""
        tail = re.sub(r"\[\w+=(\w+)\]\.\w+$", r".\1", self.path.casefold().partition("|")[0])
        return bool(
            pattern.search(
                re.sub(r"\[\d*\]", "", tail).split(".", 1)[-1]
                if tail.startswith("data.")
                else re.sub(r"\[\d*\]", "", tail)
            )
        )


# Options of a multiple-choice source: where they stand, and how the answer points at one of them.


def find_options(columns: Sequence[FieldColumn]) -> tuple[str, ...]:
    """A list of two to ten texts named like options, or sibling fields that end in A, B, C or 1, 2, 3 and so on."""
    for c in columns:
        sizes = [len(v) for v in c.values if isinstance(v, list)]
        if c.is_list and sizes and re.search(r"option|choice|candidate|alternativ|antworten", c.path.casefold()):
            texts = all(isinstance(part, str) for v in c.values[:50] if isinstance(v, list) for part in v)
            if texts and min(sizes) >= 2 and max(sizes) <= 10 and not re.search(r"label", c.path.casefold()):
                return (c.path,)
    paths = {c.path.casefold(): c.path for c in columns}
    for ends in ("abcdefghij", "1234567890", "0123456789"):
        for low, path in paths.items():
            stem = path[:-1].casefold() if low.endswith(ends[0]) else None
            if stem is None or (
                stem
                and stem[-1].isalnum()
                and not re.search(
                    r"(option|choice|opt?|answer|ans|ending|sol|alt|o|c|antwort|alternative|candidate)$", stem
                )
            ):
                continue
            run = [paths[stem + end] for end in ends if stem + end in paths]
            if len(run) >= 2 and [p.casefold() for p in run] == [stem + end for end in ends[: len(run)]]:
                return tuple(run)
    return ()


def option_index_base(
    columns: Sequence[FieldColumn], path: str | None, options: tuple[str, ...]
) -> Literal[0, 1] | None:
    """Whether the answer counts the options from 0 or from 1; None: it is a letter or a text."""
    if path is None or not options:
        return None
    texts = next(c.texts for c in columns if c.path == path)
    if not all(re.fullmatch(r"\d", t) for t in texts[:300]) or options_hold(columns, options, texts):
        return None
    return 0 if "0" in texts[:300] else 1


def options_hold(columns: Sequence[FieldColumn], options: tuple[str, ...], texts: Iterable[str]) -> bool:
    """Whether the answers are texts of the options themselves, as in arithmetic with small numbers."""
    held = {
        text_of(v)
        for c in columns
        if c.path in options
        for value in c.values
        for v in (value if isinstance(value, list) else [value])
    }
    return set(list(texts)[:300]) <= held


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
class RecordGroup:
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


def filled_fields(record: Record) -> frozenset[str]:
    """Top-level fields that hold something."""
    return frozenset(k for k, v in record.items() if v not in (None, "", [], {}))


def group_records(records: Sequence[Record]) -> list[RecordGroup]:
    """One group, or several where the file mixes records of different shapes or of different `source`s."""
    shapes = Counter(filled_fields(r) for r in records)
    if not records or are_alike(list(shapes)):
        return [RecordGroup("", records)] if not (field := dividing_field(records)) else group_by_field(records, field)
    if field := dividing_field(records):
        return group_by_field(records, field)
    return group_by_shape(records, shapes)


def are_alike(shapes: Sequence[frozenset[str]]) -> bool:
    """Whether all shapes share most of their fields with the largest."""
    largest = max(shapes, key=len)
    return all(len(shape & largest) >= 0.5 * len(shape | largest) or shape <= largest for shape in shapes)


def dividing_field(records: Sequence[Record]) -> str | None:
    """A field such as `source` with a few frequent values that says where each record is from."""
    for name in GROUP_FIELDS[:7]:
        values = [r.get(name) for r in records]
        if not all(isinstance(v, str) and v and len(v) < 60 for v in values):
            continue
        if 1 < len(counts := Counter(values)) <= MOST_GROUPS and min(counts.values()) >= 5:
            return name
    return None


def group_by_field(records: Sequence[Record], field: str) -> list[RecordGroup]:
    """A group for each value of a field, the largest first."""
    values = Counter(str(r[field]) for r in records)
    return [RecordGroup(f"{field}={v}", [r for r in records if str(r[field]) == v]) for v, _ in values.most_common()]


def group_by_shape(records: Sequence[Record], shapes: Counter[frozenset[str]]) -> list[RecordGroup]:
    """Groups by the field that only one kind of record has; records that fit nowhere stay with the first group."""
    seeds: list[frozenset[str]] = []
    for shape, _ in shapes.most_common():
        if all(len(shape & seed) < 0.5 * len(shape | seed) for seed in seeds) and len(seeds) < MOST_GROUPS:
            seeds.append(shape)
    found = []
    for i, seed in enumerate(seeds):
        own = sorted(seed.difference(*(other for j, other in enumerate(seeds) if j != i)))
        if own:
            mark = max(own, key=lambda name: sum(name in filled_fields(r) for r in records))
            found.append(RecordGroup(f"has={mark}", [r for r in records if mark in filled_fields(r)]))
    return found or [RecordGroup("", records)]
