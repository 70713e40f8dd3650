"""What a run may spend: what was asked for at its start, and what directives added."""

from __future__ import annotations

from collections.abc import Iterable

from tuneloop.core.directive import Extend
from tuneloop.core.directive_log import open_directives
from tuneloop.core.layout import RunFolder
from tuneloop.core.ledger import Limits
from tuneloop.core.run import RunSpec


def extensions(run: RunFolder) -> list[Extend]:
    """What directives added."""
    return [d.command for d in open_directives(run.directives) if isinstance(d.command, Extend)]


def limits(run: RunFolder, spec: RunSpec) -> Limits:
    """All of them as they are now; who takes back more than there was leaves nothing."""
    more = extensions(run)
    tokens = None if spec.max_tokens is None else max(0, spec.max_tokens + sum(e.tokens for e in more))
    return Limits(
        seconds=_with(spec.timeout, (e.seconds for e in more)),
        gpu_hours=_with(spec.max_gpu_hours, (e.gpu_hours for e in more)),
        tokens=tokens,
        money=_with(spec.max_cost, (e.money for e in more)),
    )


def _with(limit: float | None, more: Iterable[float]) -> float | None:
    return None if limit is None else max(0.0, limit + sum(more))
