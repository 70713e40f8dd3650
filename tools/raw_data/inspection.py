"""A data set read once from end to end: every row is counted, columns are summed, a sample is looked at more closely.

Of a large file of JSON Lines a second process reads the second half, on any machine: so the facts are the same on all.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import printable
from tuneloop.core.records import UNREADABLE
from tuneloop.sandboxes.detached import worker_process
from tuneloop.tools.config.model_card import load_tokenizer
from tuneloop.tools.raw_data.accumulators import length_stats
from tuneloop.tools.raw_data.column_stats import TableCounts, child_path
from tuneloop.tools.raw_data.facts import BrokenPlace, ColumnFacts, FileFacts, Inspection, LengthStats, PartFacts
from tuneloop.tools.raw_data.files import record_files
from tuneloop.tools.raw_data.parallel_read import merge_part, second_half_offset
from tuneloop.tools.raw_data.prompt_injection import instruction_of
from tuneloop.tools.raw_data.reader import RawFile
from tuneloop.tools.raw_data.reasoning import reasoning_facts
from tuneloop.tools.raw_data.sample import RowSample, bound_value, spread_evenly

# Tokens of a sample's texts, by a model's own tokenizer.

MOST_CHARACTERS = 1 << 21  # of one column that are tokenized


class TokenCounter:
    """The tokenizer of a model's folder. Raises InvalidRequestError where there is none."""

    def __init__(self, model: Path) -> None:
        self._tokenizer = load_tokenizer(model / "tokenizer.json" if model.is_dir() else model)

    def spread(self, texts: Sequence[str]) -> LengthStats | None:
        """Tokens of as many texts as fit into the budget, evenly chosen; the marks at both ends are not counted."""
        whole = sum(map(len, texts))
        some = list(texts[:: 1 + whole // MOST_CHARACTERS])
        codes = self._tokenizer.encode_batch_fast(some, add_special_tokens=False)
        return length_stats(map(len, codes))


# What lies in a data set's folder, as text: its cards and its tree.

README_PATTERN, CARDS = 5000, 20
LINES = 150
DEPTH = 2


def read_cards(root: Path) -> dict[str, str]:
    """Cards within two folders, by path, at most 5,000 characters each."""
    if root.is_file():
        return {}
    found = sorted(
        path
        for pattern in ("*", "*/*", "*/*/*")
        for path in root.glob(pattern)
        if path.name.lower().startswith("readme") and path.is_file() and not is_hidden(path.relative_to(root))
    )
    return {
        str(p.relative_to(root)): p.open(encoding="utf-8", errors="replace").read(README_PATTERN) for p in found[:CARDS]
    }


def folder_tree(root: Path) -> str:
    """Folders and files with their bytes, at most 150 lines."""
    if root.is_file():
        return f"{printable(root.name)}  {root.stat().st_size:,}"
    lines: list[str] = []
    for line in folder_lines(root, 0):
        if len(lines) == LINES - 1:
            return "\n".join([*lines, "…"])
        lines.append(line)
    return "\n".join(lines)


def folder_lines(folder: Path, depth: int) -> Iterator[str]:
    """Lines of a folder, the deeper the further in."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda e: e.name)
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield f"{'  ' * depth}{printable(entry.name)}/"
            yield from folder_lines(Path(entry.path), depth + 1)
        else:
            yield f"{'  ' * depth}{printable(entry.name)}  {entry.stat().st_size if entry.is_file() else 0:,}"


def is_hidden(path: Path) -> bool:
    """Whether a part of it begins with a dot."""
    return any(part.startswith(".") for part in path.parts)


HALF = "tuneloop.tools.raw_data.parallel_read"
ALIKE = 0.5  # share of top-level columns that files of one part have in common
SAMPLES, LONGEST_SAMPLE = 3, 3000
EXAMPLES, LONGEST_EXAMPLE = 3, 100
LOOKED_AT = 2000  # characters of a text in which planted instructions are looked for: what a tool would show

Progress = Callable[[str, int, int], None]


@dataclass
class InspectedPart:
    """Files of one folder with rows of one kind, and what is summed over them."""

    folder: str
    names: frozenset[str]
    table: TableCounts = field(default_factory=TableCounts)
    sample: RowSample = field(default_factory=RowSample)
    files: list[FileFacts] = field(default_factory=list)

    def alike(self, folder: str, names: frozenset[str]) -> bool:
        """Whether a file of that folder, with those columns, belongs here."""
        return folder == self.folder and len(names & self.names) >= ALIKE * len(names | self.names)


def inspect_dataset(
    root: Path,
    name: str = "",
    tokenizer: Path | None = None,
    progress: Progress | None = None,
) -> Inspection:
    """Facts about a folder or one file. `tokenizer`: a model's folder, whose tokenizer counts tokens of a sample.

    `progress` is told a file, the bytes read and all bytes. Memory does not grow with the data. Raises InvalidRequestError when
    there is no file with records.
    """
    files = record_files(root)
    if not files:
        raise InvalidRequestError(
            f"{root}: no JSON, JSONL, CSV, TSV, Parquet, Arrow or text file; right is a folder with some"
        )
    name = name or (root.stem if root.is_file() else root.name)
    counter = TokenCounter(tokenizer) if tokenizer else None
    parts: list[InspectedPart] = []
    empty: list[FileFacts] = []
    total = sum(path.stat().st_size for path in files)
    done = 0
    with without_gc():
        for path in files:
            facts, part = read_one_file(
                path, root, parts, partial(report_progress, progress, done, total) if progress else None
            )
            (part.files if part else empty).append(facts)
            done += facts.bytes
    if progress:
        progress("", total, total)
    found = [part_facts(part, part_title(part, parts), counter) for part in parts]
    return Inspection(
        name=name,
        rows=sum(p.rows for p in found),
        broken=sum(p.broken for p in found) + sum(f.broken for f in empty),
        bytes=total,
        parts=tuple(found),
        empty_files=tuple(empty),
        readmes=read_cards(root),
        tree=folder_tree(root),
        tokenizer=tokenizer.name if tokenizer else "",
    )


def report_progress(progress: Progress, done: int, total: int, file: str, read: int) -> None:
    """Say how far all is, from how far one file is."""
    progress(file, min(done + read, total), total)


@contextmanager
def without_gc() -> Iterator[None]:
    """Without looking for garbage: millions of rows come and go, none of them in a circle."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_one_file(
    path: Path, root: Path, parts: list[InspectedPart], seen: Callable[[str, int], None] | None
) -> tuple[FileFacts, InspectedPart | None]:
    """One file, summed into the part that it belongs to; None where it holds no rows."""
    shown_path = str(path.relative_to(root)) if path != root else path.name
    folder = str(path.relative_to(root).parent) if path != root else "."
    half, size = second_half_offset(path), path.stat().st_size
    file = RawFile(path, stop=half)
    part: InspectedPart | None = None
    with worker_process(HALF, str(path), str(half)) if half else nullcontext() as other:
        for numbers, rows in file.batches():
            if part is None and rows:
                part = part_for(folder, frozenset(rows[0]), parts)
            if part is not None:
                part.table.add(rows)
                part.sample.add(shown_path, numbers, rows)
            if seen is not None:
                seen(shown_path, file.consumed * size // half if half else file.consumed)
        if other is not None:
            part = part or part_for(folder, frozenset(), parts)
            merge_part(other, half, file, part.table, part.sample, shown_path)
    return file_facts(file, shown_path), part


def part_for(folder: str, names: frozenset[str], parts: list[InspectedPart]) -> InspectedPart:
    """The part with rows like these, a new one where there is none."""
    for part in parts:
        if part.alike(folder, names):
            return part
    parts.append(InspectedPart(folder, names))
    return parts[-1]


def file_facts(file: RawFile, path: str) -> FileFacts:
    """What there is to say of a file that was read."""
    try:
        packing = file.packing()
    except UNREADABLE:
        packing = ""
    return FileFacts(
        path=path,
        kind=file.kind,
        packing=packing,
        encoding=file.encoding(),
        bytes=file.path.stat().st_size,
        rows=file.rows,
        broken=file.broken,
        shown=tuple(BrokenPlace(where=f"{path}:{b.line}", why=b.why, text=b.text) for b in file.shown),
        read_error=file.read_error,
    )


def part_title(part: InspectedPart, parts: Sequence[InspectedPart]) -> str:
    """The folder; where it holds several parts, with the part's first file."""
    same = [p for p in parts if p.folder == part.folder]
    return part.folder if len(same) == 1 else part.files[0].path


def part_facts(part: InspectedPart, name: str, counter: TokenCounter | None) -> PartFacts:
    """All that is known of a part."""
    rows = [row for _, row in part.sample.rows()]
    found = Counter(hit[1].casefold() for row in rows if (hit := instruction_of(bound_value(row, LOOKED_AT))))
    columns = column_facts(part.table, rows, counter)
    distinct = part.table.distinct
    return PartFacts(
        name=name,
        folder=part.folder,
        files=tuple(part.files),
        rows=part.table.rows,
        broken=sum(f.broken for f in part.files),
        duplicates=max(0, part.table.rows - distinct.count),
        duplicates_exact=distinct.exact,
        columns=columns,
        more_columns=len(part.table.left_out),
        reasoning=reasoning_facts(rows, {c.path: c for c in columns}),
        samples=tuple(bound_value(row, LONGEST_SAMPLE) for row in spread_evenly(rows, SAMPLES)),
        suspicious=found.total(),
        suspicious_words=dict(found.most_common(5)),
    )


def column_facts(
    table: TableCounts, rows: Sequence[dict[str, Any]], counter: TokenCounter | None
) -> tuple[ColumnFacts, ...]:
    """Every column's, with examples, and tokens where a tokenizer is given."""
    values = values_by_path(rows)
    found = []
    for path, column in table.columns.items():
        some = values.get(path, [])
        facts = column.facts(table.places_of(path), example_values(some))
        tokens = counter.spread([v for v in some if isinstance(v, str)]) if counter and facts.characters else None
        found.append(facts.model_copy(update={"tokens": tokens}))
    return tuple(found)


def values_by_path(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of a few rows under the same paths as in a table."""
    found: dict[str, list[Any]] = {}

    def walk(path: str, value: Any) -> None:
        found.setdefault(path, []).append(value)
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(child_path(path, name), inner)
        elif isinstance(value, list):
            for inner in value:
                walk(path + "[]", inner)

    for row in rows:
        for name, value in row.items():
            walk(child_path("", name), value)
    return found


def example_values(values: Sequence[Any]) -> tuple[str, ...]:
    """A few different values, short."""
    plain = (v for v in values if v not in (None, "") and not isinstance(v, dict | list))
    texts = dict.fromkeys(str(bound_value(v, LONGEST_EXAMPLE)) for v in plain)
    return tuple(list(texts)[:EXAMPLES])
