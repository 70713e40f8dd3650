"""What agents, their tools and their jobs see of a data set: its rows without those that hold sealed items; made once.

Where no row holds one, that is the data set itself. Else it is a folder: files without such rows are linked, of the others
the remaining rows are written as JSON Lines, and what nobody could look at (files that are neither rows nor short texts,
the end of a broken file) is not there.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from tuneloop.core.files import digest, fsync_tree, read_model, write_json
from tuneloop.core.locks import exclusive
from tuneloop.tools.contamination.probes import Hit
from tuneloop.tools.housekeeping.disk import remove_path, unfinished_removals
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.raw_data.client import FileEnd, RawDataReader, RowLine
from tuneloop.tools.raw_data.files import is_inside, record_files
from tuneloop.tools.raw_data.sample import bound_value

RECORD, ROWS = "view.json", "rows"
LONGEST_TEXT = 1 << 20  # bytes of a file without rows that is looked at
MOST_SHOWN, LONGEST_SHOWN = 1000, 1000  # rows with validation items that are told, characters of their texts
MOST_NUMBERED = 50_000  # rows of a file among which those with validation items are numbered
TOLD_EVERY = 2000
Progress = Callable[[int], None]


class SealedGuard(Protocol):
    """Knows the items of a run's benchmarks."""

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        """For each row what it overlaps with."""
        ...


class ValidationHit(BaseModel):
    """A row of the view that holds a validation item which agents may see."""

    model_config = ConfigDict(frozen=True)

    where: str
    benchmark: str
    item: str
    row: Any


class DatasetView(BaseModel):
    """`root`: what is read instead of the data set; `rows` were looked at, `removed` counts by split those not in it.

    `overlapping`: file → numbers (from 1) of its rows that hold validation items. `left_out`: other files that are not in it.
    """

    model_config = ConfigDict(frozen=True)

    root: Path
    rows: int
    removed: dict[str, int]
    validation_rows: int
    validation: tuple[ValidationHit, ...]
    overlapping: dict[str, str]
    left_out: int


@dataclass
class FileScan:
    """What one file holds: numbers (from 0) of its sealed rows, and its rows with validation items as they are called then."""

    path: Path
    rows: int = 0
    sealed: set[int] = field(default_factory=set)
    splits: Counter[str] = field(default_factory=Counter)
    shown: list[tuple[int, int, Hit, Any]] = field(default_factory=list)
    rewrite: bool = False


def make_view(
    root: Path, folder: Path, guard: SealedGuard, reader: RawDataReader, progress: Progress | None = None
) -> DatasetView:
    """The view of a data set, found complete in `folder` or made there. Raises InvalidRequestError for what cannot be read."""
    record = folder / RECORD
    with exclusive(folder.with_name(f".{folder.name}.lock")):
        if record.is_file() and (known := read_model(record, DatasetView)).root.exists():
            return known
        for left in (folder, *unfinished_removals(folder)):
            remove_path(left)
        made = build_view(root, folder, guard, reader, progress)
        write_json(record, made.model_dump(mode="json"))
        return made


def build_view(
    root: Path, folder: Path, guard: SealedGuard, reader: RawDataReader, progress: Progress | None
) -> DatasetView:
    """Look through all files, and write what differs from the data set."""
    names = {file_name(path, root): path for path in record_files(root)}
    scans = {name: scan_file(root, path, guard, reader, progress) for name, path in names.items()}
    texts, left_out = other_files(root, set(names.values()), guard, reader)
    place = root
    if left_out or any(scan.rewrite for scan in scans.values()):
        place = write_view(root, folder / ROWS, scans, texts, reader)
    return view_facts(place, scans, left_out)


@cache
def filter_hash() -> str:
    """Hash of everything that decides what is in a view."""
    here = Path(__file__).parent
    folders = (here, here.parent / "contamination")
    files = [
        here.parents[1] / "core" / "records.py",
        *(path for folder in folders for path in sorted(folder.glob("*.py"))),
    ]
    return digest(*(path.read_bytes() for path in files))


def file_name(path: Path, root: Path) -> str:
    """A file as tools and scripts call it."""
    return str(path.relative_to(root)) if path != root else path.name


def scan_file(root: Path, path: Path, guard: SealedGuard, reader: RawDataReader, progress: Progress | None) -> FileScan:
    """Look at every row and every broken line of a file."""
    found, end = FileScan(path), FileEnd()
    lines, again = itertools.tee(reader.rows(root, path, end))
    for line, hit in zip(lines, guard.find(map(looked_at, again)), strict=True):
        sealed = hit is not None and hit.sealed
        if line.row is None:
            # A broken line is no row of the view; one with an item, or too long to be looked at, is not in it at all.
            found.rewrite |= sealed or line.text is None
            continue
        if hit is not None:
            found.splits[hit.split] += 1
            if sealed:
                found.sealed.add(found.rows)
            else:
                found.shown.append((found.rows - len(found.sealed), line.line, hit, line.row))
                found.shown = keep_few(found.shown)
        found.rows += 1
        if progress is not None and found.rows % TOLD_EVERY == 0:
            progress(found.rows)
    found.rewrite |= end.partial or bool(found.sealed)
    return found


def keep_few(shown: list[tuple[int, int, Hit, Any]]) -> list[tuple[int, int, Hit, Any]]:
    """The same with the last one's row where it will not be told."""
    if len(shown) > MOST_SHOWN:
        shown[-1] = (*shown[-1][:3], None)
    return shown


def looked_at(line: RowLine) -> Any:
    """The row, or what stands in a line that is none."""
    return line.row if line.row is not None else (line.text or b"").decode("utf-8", "replace")


def other_files(root: Path, rows: set[Path], guard: SealedGuard, reader: RawDataReader) -> tuple[list[Path], int]:
    """Short texts beside the files with rows that hold no sealed item; and how many files are not among them."""
    if root.is_file():
        return [], 0
    whole, kept, left_out = root.resolve(), [], 0
    for path in sorted(path for path in root.rglob("*") if path.is_file() and is_inside(path, whole)):
        if path in rows or path == root / MANIFEST:  # which lists the hashes of other files than the view has
            continue
        text = reader.text(root, path, LONGEST_TEXT)
        hits = guard.find([text, *text.splitlines()]) if text is not None else ()
        if text is None or any(hit is not None and hit.sealed for hit in hits):
            left_out += 1
        else:
            kept.append(path)
    return kept, left_out


def write_view(root: Path, place: Path, scans: dict[str, FileScan], texts: list[Path], reader: RawDataReader) -> Path:
    """Write the folder; of a data set that is one file, one file in it. The path of the view."""
    for name, scan in scans.items():
        target = place / view_name(name, scan)
        target.parent.mkdir(parents=True, exist_ok=True)
        if scan.rewrite:
            write_rows(root, scan, target, reader)
        else:
            link_or_copy(scan.path, target)
    for path in texts:
        target = place / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(path, target)
    place.mkdir(parents=True, exist_ok=True)
    fsync_tree(place)  # before the record that proves it
    return place / next(view_name(name, scan) for name, scan in scans.items()) if root.is_file() else place


def view_name(name: str, scan: FileScan) -> str:
    """Of a file in the view: rows that are written anew are JSON Lines, and say so."""
    return name if not scan.rewrite or name.endswith((".jsonl", ".ndjson")) else f"{name}.jsonl"


def write_rows(root: Path, scan: FileScan, target: Path, reader: RawDataReader) -> None:
    """The rows of a file without the sealed ones."""
    rows = (line for line in reader.rows(root, scan.path) if line.row is not None)
    with target.open("wb") as out:
        for number, line in enumerate(rows):
            if number not in scan.sealed:
                out.write((line.text or b"") + b"\n")


def link_or_copy(path: Path, target: Path) -> None:
    """The same file, where the disk allows it; a link by name would lead out of the view."""
    try:
        os.link(path.resolve(), target)
    except OSError:
        shutil.copyfile(path, target)


def view_facts(place: Path, scans: dict[str, FileScan], left_out: int) -> DatasetView:
    """What is known of the view."""
    counts: Counter[str] = sum((scan.splits for scan in scans.values()), Counter())
    hits = []
    for name, scan in scans.items():
        file = view_name(name, scan)
        for number, line, hit, row in scan.shown[:MOST_SHOWN]:
            where = f"{file}:{number + 1 if scan.rewrite else line}"
            shown = bound_value(row, LONGEST_SHOWN)
            hits.append(ValidationHit(where=where, benchmark=hit.benchmark, item=str(hit.id), row=shown))
    numbers = {
        view_name(name, scan): " ".join(str(number + 1) for number, *_ in scan.shown if number < MOST_NUMBERED)
        for name, scan in scans.items()
        if scan.shown
    }
    return DatasetView(
        root=place,
        rows=sum(scan.rows for scan in scans.values()),
        removed={split: count for split, count in counts.items() if split != "validation"},
        validation_rows=counts["validation"],
        validation=tuple(hits[:MOST_SHOWN]),
        overlapping=numbers,
        left_out=left_out,
    )
