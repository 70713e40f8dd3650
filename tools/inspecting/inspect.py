"""A data set read once from end to end: every row is counted, columns are summed, a sample is looked at more closely.

Of a large file of JSON Lines a second process reads the second half, on any machine: so the facts are the same on all.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.errors import SetupError
from tuneloop.core.raw import UNREADABLE
from tuneloop.sandboxes.second import second
from tuneloop.tools.contamination import Guard
from tuneloop.tools.contamination.withheld import CARD, LINE, open_text, sealed
from tuneloop.tools.inspecting.columns import Table, named
from tuneloop.tools.inspecting.facts import BrokenPlace, ColumnFacts, FileFacts, Inspection, PartFacts
from tuneloop.tools.inspecting.half import middle_of, take_in
from tuneloop.tools.inspecting.reasoning import reasoning_facts
from tuneloop.tools.inspecting.rows import RawFile
from tuneloop.tools.inspecting.sample import Sample, shown, spread
from tuneloop.tools.inspecting.suspicious import instruction_of
from tuneloop.tools.inspecting.tokens import TokenCounter
from tuneloop.tools.inspecting.tree import readmes, tree
from tuneloop.tools.profiling.reading import sources

HALF = "tuneloop.tools.inspecting.half"
ALIKE = 0.5  # share of top-level columns that files of one part have in common
SAMPLES, LONGEST_SAMPLE = 3, 3000
EXAMPLES, LONGEST_EXAMPLE = 3, 100
LOOKED_AT = 2000  # characters of a text in which planted instructions are looked for: what a tool would show

Progress = Callable[[str, int, int], None]


@dataclass
class Part:
    """Files of one folder with rows of one kind, and what is summed over them."""

    folder: str
    names: frozenset[str]
    table: Table = field(default_factory=Table)
    sample: Sample = field(default_factory=Sample)
    files: list[FileFacts] = field(default_factory=list)

    def alike(self, folder: str, names: frozenset[str]) -> bool:
        """Whether a file of that folder, with those columns, belongs here."""
        return folder == self.folder and len(names & self.names) >= ALIKE * len(names | self.names)


def inspect(
    root: Path,
    name: str = "",
    tokenizer: Path | None = None,
    progress: Progress | None = None,
    guard: Guard | None = None,
) -> Inspection:
    """Facts about a folder or one file. `tokenizer`: a model's folder, whose tokenizer counts tokens of a sample.

    `guard`: of rows, broken lines and cards that hold a sealed item it knows, nothing is shown; counts are of all.

    `progress` is told a file, the bytes read and all bytes. Memory does not grow with the data. Raises SetupError when
    there is no file with records.
    """
    files = sources(root)
    if not files:
        raise SetupError(f"{root}: no JSON, JSONL, CSV, TSV, Parquet, Arrow or text file; right is a folder with some")
    name = name or (root.stem if root.is_file() else root.name)
    counter = TokenCounter(tokenizer) if tokenizer else None
    parts: list[Part] = []
    empty: list[FileFacts] = []
    total = sum(path.stat().st_size for path in files)
    done = 0
    with undisturbed():
        for path in files:
            facts, part = read(path, root, parts, partial(tell, progress, done, total) if progress else None, guard)
            (part.files if part else empty).append(facts)
            done += facts.bytes
    if progress:
        progress("", total, total)
    found = [part_facts(part, title(part, parts), counter, guard) for part in parts]
    return Inspection(
        name=name,
        rows=sum(p.rows for p in found),
        broken=sum(p.broken for p in found) + sum(f.broken for f in empty),
        bytes=total,
        parts=tuple(found),
        empty_files=tuple(empty),
        readmes={path: open_text(guard, text, CARD) for path, text in readmes(root).items()},
        tree=tree(root),
        tokenizer=tokenizer.name if tokenizer else "",
    )


def tell(progress: Progress, done: int, total: int, file: str, read: int) -> None:
    """Say how far all is, from how far one file is."""
    progress(file, min(done + read, total), total)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without looking for garbage: millions of rows come and go, none of them in a circle."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read(
    path: Path, root: Path, parts: list[Part], seen: Callable[[str, int], None] | None, guard: Guard | None
) -> tuple[FileFacts, Part | None]:
    """One file, summed into the part that it belongs to; None where it holds no rows."""
    shown_path = str(path.relative_to(root)) if path != root else path.name
    folder = str(path.relative_to(root).parent) if path != root else "."
    half, size = middle_of(path), path.stat().st_size
    file = RawFile(path, stop=half)
    part: Part | None = None
    with second(HALF, str(path), str(half)) if half else nullcontext() as other:
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
            take_in(other, half, file, part.table, part.sample, shown_path)
    return file_facts(file, shown_path, guard), part


def part_for(folder: str, names: frozenset[str], parts: list[Part]) -> Part:
    """The part with rows like these, a new one where there is none."""
    for part in parts:
        if part.alike(folder, names):
            return part
    parts.append(Part(folder, names))
    return parts[-1]


def file_facts(file: RawFile, path: str, guard: Guard | None) -> FileFacts:
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
        shown=tuple(
            BrokenPlace(where=f"{path}:{b.line}", why=b.why, text=LINE if held else b.text)
            for b, held in zip(file.shown, sealed(guard, [b.whole for b in file.shown]), strict=True)
        ),
        trouble=file.trouble,
    )


def title(part: Part, parts: Sequence[Part]) -> str:
    """The folder; where it holds several parts, with the part's first file."""
    same = [p for p in parts if p.folder == part.folder]
    return part.folder if len(same) == 1 else part.files[0].path


def part_facts(part: Part, name: str, counter: TokenCounter | None, guard: Guard | None) -> PartFacts:
    """All that is known of a part."""
    sampled = [row for _, row in part.sample.rows()]
    rows = [row for row, held in zip(sampled, sealed(guard, sampled), strict=True) if not held]
    found = Counter(hit[1].casefold() for row in rows if (hit := instruction_of(shown(row, LOOKED_AT))))
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
        samples=tuple(shown(row, LONGEST_SAMPLE) for row in spread(rows, SAMPLES)),
        withheld=len(sampled) - len(rows),
        suspicious=found.total(),
        suspicious_words=dict(found.most_common(5)),
    )


def column_facts(table: Table, rows: Sequence[dict[str, Any]], counter: TokenCounter | None) -> tuple[ColumnFacts, ...]:
    """Every column's, with examples, and tokens where a tokenizer is given."""
    values = values_by_path(rows)
    found = []
    for path, column in table.columns.items():
        some = values.get(path, [])
        facts = column.facts(table.places_of(path), examples(some))
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
                walk(named(path, name), inner)
        elif isinstance(value, list):
            for inner in value:
                walk(path + "[]", inner)

    for row in rows:
        for name, value in row.items():
            walk(named("", name), value)
    return found


def examples(values: Sequence[Any]) -> tuple[str, ...]:
    """A few different values, short."""
    plain = (v for v in values if v not in (None, "") and not isinstance(v, dict | list))
    texts = dict.fromkeys(str(shown(v, LONGEST_EXAMPLE)) for v in plain)
    return tuple(list(texts)[:EXAMPLES])
