"""Wait for a job: report progress, obey the inbox, keep the deadline; the one place where time passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tuneloop.core.bridge import pause
from tuneloop.core.errors import Paused, RecipeError
from tuneloop.core.events import JobProgress
from tuneloop.graph.context import Context
from tuneloop.graph.inbox import obey

# Seconds between looks: a twelfth of the time waited so far, so that short jobs are not delayed and long ones are cheap.
FIRST, LONGEST, SHARE, SAID = 0.25, 2.0, 12, 2.0


def wait(ctx: Context, job: str, poll: Callable[[], dict[str, Any]], stop: Callable[[], None]) -> dict[str, Any]:
    """Poll until the job is no longer running; returns the last status.

    Raises Paused (the job is ended) when the inbox says so, RecipeError when the run's time is over.
    """
    began, said, last = time.monotonic(), 0.0, (-1, -1)
    while (status := poll())["state"] == "running":
        now = time.monotonic()
        seen = (status.get("done", 0), status.get("total", 0))
        if seen != last and now - said >= SAID:
            said, last = now, seen
            _say(ctx, job, status)
        try:
            obey(ctx.run.inbox)
        except Paused:
            stop()
            raise
        left = ctx.seconds_left()
        if left is not None and left < now - began:
            stop()
            raise RecipeError(f"the run's time was over during {job}", culprit="environment")
        pause(min(LONGEST, max(FIRST, (now - began) / SHARE)))
    if status.get("total"):
        _say(ctx, job, status)
    return status


def _say(ctx: Context, job: str, status: dict[str, Any]) -> None:
    loss = status.get("loss")
    note = "" if loss is None else f"loss {loss:.3f}"
    ctx.emit(
        JobProgress(
            experiment=ctx.state.experiment,
            job=job,
            done=status.get("done", 0),
            total=status.get("total", 0),
            unit=status.get("unit", "steps"),
            note=note,
        )
    )
