"""What a run may spend: what was asked for at its start, and what directives added."""

from __future__ import annotations

from tuneloop.core.directive import Extend
from tuneloop.core.directive_log import open_directives
from tuneloop.core.layout import RunFolder
from tuneloop.core.ledger import Limits
from tuneloop.core.run import RunSpec


def extensions(run: RunFolder) -> list[Extend]:
    """What directives added."""
    return [d.wish for d in open_directives(run.directives) if isinstance(d.wish, Extend)]


def limits(run: RunFolder, spec: RunSpec) -> Limits:
    """All of them as they are now."""
    more = extensions(run)
    tokens = None if spec.max_tokens is None else spec.max_tokens + sum(e.tokens for e in more)
    return Limits(
        seconds=None if spec.timeout is None else spec.timeout + sum(e.seconds for e in more),
        gpu_hours=None if spec.max_gpu_hours is None else spec.max_gpu_hours + sum(e.gpu_hours for e in more),
        tokens=tokens,
        money=None if spec.max_cost is None else spec.max_cost + sum(e.money for e in more),
    )
