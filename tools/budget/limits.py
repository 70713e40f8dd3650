"""`budget.json`: of which limits there was a warning, and which could not hold what was wanted next.

A mark names the limit's value: when a directive moves the limit, the mark is about another one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Literal

from tuneloop.core.budget import Kind, Limits, SpendingLine
from tuneloop.core.directive import Extend
from tuneloop.core.directive_log import open_directives
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec

# What a run may spend: what was asked for at its start, and what directives added.


def budget_extensions(run: RunFolder) -> list[Extend]:
    """What directives added."""
    return [d.command for d in open_directives(run.directives) if isinstance(d.command, Extend)]


def current_limits(run: RunFolder, spec: RunSpec) -> Limits:
    """All of them as they are now; who takes back more than there was leaves nothing."""
    more = budget_extensions(run)
    tokens = None if spec.max_tokens is None else max(0, spec.max_tokens + sum(e.tokens for e in more))
    return Limits(
        seconds=_with(spec.timeout, (e.seconds for e in more)),
        gpu_hours=_with(spec.max_gpu_hours, (e.gpu_hours for e in more)),
        tokens=tokens,
        money=_with(spec.max_cost, (e.money for e in more)),
    )


def _with(limit: float | None, more: Iterable[float]) -> float | None:
    return None if limit is None else max(0.0, limit + sum(more))


Mark = Literal["warned", "reached"]
_WRITING = threading.Lock()  # who listens beside a node may find a limit, too


def is_marked(run: RunFolder, mark: Mark, line: SpendingLine) -> bool:
    """Whether it was said of this very limit."""
    return bool(line.limit is not None and _marks(run).get(mark, {}).get(line.kind) == line.limit)


def set_mark(run: RunFolder, mark: Mark, kind: Kind, limit: float) -> None:
    """Note it; only the holder of the run's lock does."""
    with _WRITING:
        marks = _marks(run)
        marks[mark] = {**marks.get(mark, {}), kind: limit}
        write_json(run.budget, marks)


def _marks(run: RunFolder) -> dict[str, dict[str, float]]:
    return read_model(run.budget, dict[str, dict[str, float]]) if run.budget.is_file() else {}
