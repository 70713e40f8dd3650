"""Read a job's progress from what it printed or logged; cheap enough to poll."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.files import parse_json

TAIL = 16384


def tail_rows(path: Path) -> Iterator[dict[str, Any]]:
    """JSON objects in the last 16 KB of `path`, newest first; torn and foreign lines are skipped."""
    try:
        with path.open("rb") as f:
            f.seek(0, 2)
            f.seek(max(0, f.tell() - TAIL))
            lines = f.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                row = parse_json(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row


def last_progress(log: Path) -> tuple[int, int]:
    """(done, total) of the newest line that has them; (0, 0) before the first."""
    return next(((done, total) for done, total, _ in _progress(log)), (0, 0))


def told_progress(log: Path) -> dict[str, Any]:
    """The same of a data script in our words, none of the script's: `unit`, rows or answers of models, and `note`."""
    for done, total, row in _progress(log):
        if row.get("unit") != "answers":
            return {"done": done, "total": total, "unit": "rows"}
        counts = {"from before": row.get("kept"), "without": row.get("without")}
        note = ", ".join(f"{count} {word}" for word, count in counts.items() if count and isinstance(count, int))
        return {"done": done, "total": total, "unit": "answers", "note": note}
    return {"done": 0, "total": 0, "unit": "rows"}


def _progress(log: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for row in tail_rows(log):
        done = row.get("done", row.get("step", row.get("current_steps")))
        total = row.get("total", row.get("total_steps"))
        if isinstance(done, int) and isinstance(total, int):
            yield done, total, row
