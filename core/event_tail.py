"""Read a run's `events.jsonl` from its end: who joins late needs the last lines, however long the log is."""

from __future__ import annotations

from pathlib import Path

BLOCK = 1 << 20


def last_line(path: Path, kind: str, before: int | None = None) -> int | None:
    """Byte offset of the newest line with an event of `kind` that begins before byte `before`; None: there is none."""
    # In JSON a text cannot hold this: its quotes are escaped.
    mark, rest = f'"kind":"{kind}"'.encode(), b""
    try:
        with path.open("rb") as f:
            end = f.seek(0, 2) if before is None else before
            while end > 0:
                begin = max(0, end - BLOCK)
                f.seek(begin)
                data = f.read(end - begin) + rest
                start = data.rfind(b"\n", 0, max(0, data.rfind(mark))) + 1
                if mark in data and (start or begin == 0):
                    return begin + start
                end, rest = begin, data[: data.find(b"\n") + 1 or len(data)]
    except FileNotFoundError:
        return None
    return None
