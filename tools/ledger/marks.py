"""`budget.json`: of which limits there was a warning, and which could not hold what was wanted next.

A mark names the limit's value: when a directive moves the limit, the mark is about another one.
"""

from __future__ import annotations

import threading
from typing import Literal

from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.ledger import Kind, Line

Mark = Literal["warned", "reached"]
_WRITING = threading.Lock()  # who listens beside a node may find a limit, too


def marked(run: RunFolder, mark: Mark, line: Line) -> bool:
    """Whether it was said of this very limit."""
    return bool(line.limit is not None and _marks(run).get(mark, {}).get(line.kind) == line.limit)


def set_mark(run: RunFolder, mark: Mark, kind: Kind, limit: float) -> None:
    """Note it; only the holder of the run's lock does."""
    with _WRITING:
        marks = _marks(run)
        marks[mark] = {**marks.get(mark, {}), kind: limit}
        write_json(run.budget, marks)


def _marks(run: RunFolder) -> dict[str, dict[str, float]]:
    return dict(read_json(run.budget)) if run.budget.is_file() else {}
