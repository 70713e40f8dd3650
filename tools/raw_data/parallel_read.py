"""The second half of a large file, read by a process of its own: `python -m tuneloop.tools.raw_data.parallel_read FILE START`."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

from tuneloop.core.records import HEAD, encoding_of, packing_of
from tuneloop.sandboxes.detached import WorkerProcess
from tuneloop.tools.raw_data.column_stats import TableCounts
from tuneloop.tools.raw_data.reader import BrokenLine, RawFile
from tuneloop.tools.raw_data.sample import RowSample

LARGE = 128 << 20  # bytes: what is smaller is read in the time that a process needs to start


def second_half_offset(path: Path) -> int:
    """Where the second half of a large file of plain JSON Lines begins: behind a line's end; 0 for any other file.

    It is the smaller one: who reads it starts later.
    """
    size = path.stat().st_size
    if size < LARGE or path.suffix.lower() not in (".jsonl", ".ndjson") or packing_of(path):
        return 0
    with path.open("rb") as f:
        if encoding_of(f.read(HEAD)) != "utf-8":
            return 0
        f.seek((size + LARGE) // 2)
        f.readline(LARGE)
        return f.tell() if f.tell() < size else 0


def read_part(file: RawFile, table: TableCounts, sample: RowSample) -> None:
    """Read a file, or a part of it, into a table and a sample."""
    for numbers, rows in file.batches():
        table.add(rows)
        sample.add("", numbers, rows)


def read_state(path: Path, start: int) -> dict[str, Any]:
    """What the file holds from a byte on, as plain JSON."""
    file, table, sample = RawFile(path, start=start), TableCounts(), RowSample()
    read_part(file, table, sample)
    shown = [(b.line, b.why, b.text, b.whole) for b in file.shown]
    counts = {"rows": file.rows, "broken": file.broken, "shown": shown, "trouble": file.read_error}
    return {**counts, "table": table.state(), "sample": sample.state()}


def merge_part(
    other: WorkerProcess, start: int, file: RawFile, table: TableCounts, sample: RowSample, name: str
) -> None:
    """Add what the second process found behind the lines of `file`; where it failed, its half is read here."""
    said = other.answer()
    state = read_state(file.path, start) if said is None else json.loads(said)
    for line, why, text, whole in state["shown"]:
        file.show(BrokenLine(line + file.last, why, text, whole))
    file.rows += state["rows"]
    file.broken += state["broken"]
    file.read_error = file.read_error or state["trouble"]
    table.merge(state["table"])
    sample.merge(state["sample"], name, file.last)


def main() -> None:
    """Read from START to the end, and say what was found."""
    gc.disable()  # millions of rows come and go, none of them in a circle
    sys.stdout.write(json.dumps(read_state(Path(sys.argv[1]), int(sys.argv[2]))))


if __name__ == "__main__":
    main()
