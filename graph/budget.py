"""What a run may use: what was asked for at its start, and what directives added."""

from __future__ import annotations

from tuneloop.core.directive import Extend, Finish
from tuneloop.core.directive_log import open_directives
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec


def extensions(run: RunFolder) -> list[Extend]:
    """What directives added."""
    return [d.wish for d in open_directives(run.directives) if isinstance(d.wish, Extend)]


def seconds_limit(run: RunFolder, spec: RunSpec) -> float | None:
    """Seconds of work, all sittings together; None: unlimited."""
    return None if spec.timeout is None else spec.timeout + sum(e.seconds for e in extensions(run))


def experiments_limit(run: RunFolder, spec: RunSpec) -> int | None:
    """Experiments; None: unlimited."""
    return None if spec.loop_n is None else spec.loop_n + sum(e.experiments for e in extensions(run))


def asked_to_finish(run: RunFolder) -> bool:
    """Whether no experiment shall follow the open one."""
    return any(isinstance(d.wish, Finish) for d in open_directives(run.directives))
