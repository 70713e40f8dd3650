"""The second half of a large file, read by a process of its own: `python -m tuneloop.tools.inspecting.half FILE START`."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

from tuneloop.core.raw import HEAD, encoding_of, packing_of
from tuneloop.sandboxes.second import Second
from tuneloop.tools.inspecting.columns import Table
from tuneloop.tools.inspecting.rows import BrokenLine, RawFile
from tuneloop.tools.inspecting.sample import Sample

LARGE = 128 << 20  # bytes: what is smaller is read in the time that a process needs to start


def middle_of(path: Path) -> int:
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


def summed(file: RawFile, table: Table, sample: Sample) -> None:
    """Read a file, or a part of it, into a table and a sample."""
    for numbers, rows in file.batches():
        table.add(rows)
        sample.add("", numbers, rows)


def state_of(path: Path, start: int) -> dict[str, Any]:
    """What the file holds from a byte on, as plain JSON."""
    file, table, sample = RawFile(path, start=start), Table(), Sample()
    summed(file, table, sample)
    shown = [(b.line, b.why, b.text, b.whole) for b in file.shown]
    counts = {"rows": file.rows, "broken": file.broken, "shown": shown, "trouble": file.trouble}
    return {**counts, "table": table.state(), "sample": sample.state()}


def take_in(other: Second, start: int, file: RawFile, table: Table, sample: Sample, name: str) -> None:
    """Add what the second process found behind the lines of `file`; where it failed, its half is read here."""
    said = other.answer()
    state = state_of(file.path, start) if said is None else json.loads(said)
    for line, why, text, whole in state["shown"]:
        file.show(BrokenLine(line + file.last, why, text, whole))
    file.rows += state["rows"]
    file.broken += state["broken"]
    file.trouble = file.trouble or state["trouble"]
    table.merge(state["table"])
    sample.merge(state["sample"], name, file.last)


def main() -> None:
    """Read from START to the end, and say what was found."""
    gc.disable()  # millions of rows come and go, none of them in a circle
    sys.stdout.write(json.dumps(state_of(Path(sys.argv[1]), int(sys.argv[2]))))


if __name__ == "__main__":
    main()
