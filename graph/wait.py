"""Wait for a job: report progress, obey the inbox, keep the deadline; the one place where time passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import PausedError, RecipeError
from tuneloop.core.events import JobProgress, MonitorFinding
from tuneloop.core.job import Exit
from tuneloop.graph.budget.gate import warn_near_limits
from tuneloop.graph.context import Context
from tuneloop.graph.steering.inbox_listener import has_messages, raise_if_paused

# Seconds between looks: a sixth of the time waited so far, so that short jobs are not delayed and long ones are cheap.
FIRST, LONGEST, SHARE, SAID = 0.25, 5.0, 6, 2.0
# Seconds between glances at the job's proof of its end and at what people ask, which cost next to nothing.
QUICK, SLOW = 0.05, 0.25
KILLS = 5  # of one job in one session before the run pauses: something keeps ending it
ENDING = 300.0  # seconds to watch a job end before the run pauses without it


def wait_for_job(
    ctx: Context, job: str, poll: Callable[[], dict[str, Any]], stop: Callable[[], Any], proof: Path | None = None
) -> dict[str, Any]:
    """Poll until the job is no longer running, or a finding of its watch says that it shall end; the last status.

    `proof` is the file that says that it is over: with it nobody waits for the next poll. Raises PausedError (the job is
    ended first) when the inbox says so, RecipeError when the run's time is over.
    """
    if ctx.run.training > 1:
        job = f"{job} with seed {ctx.run_tools.spec.seed + ctx.run.training - 1}"
    began, said, last, warned = time.monotonic(), 0.0, (-1, -1), set[str]()
    looked = began
    while (status := poll())["state"] == "running":
        now = time.monotonic()
        seen = (status.get("done", 0), status.get("total", 0))
        if seen != last and now - said >= SAID:
            said, last = now, seen
            _say(ctx, job, status)
        warned |= _warn(ctx, job, status, warned)
        if now - looked >= SAID and ctx.state.spent >= 0:
            looked = now
            warn_near_limits(ctx, now - began)
        if stopping_finding(status):
            return status
        try:
            raise_if_paused(ctx)
        except PausedError:
            stop()
            wait_until_over(poll)
            raise
        left = ctx.seconds_left()
        if left is not None and left < now - began:
            stop()
            raise RecipeError(f"the run's {ctx.first_limit} was over during {job}", culprit="environment")
        sleep_until_poll(ctx, now - began, proof)
    if status.get("total"):
        _say(ctx, job, status)
    return status


def sleep_until_poll(ctx: Context, waited: float, proof: Path | None) -> None:
    """Sleep until the next poll, or until the job has ended or somebody asks for a pause."""
    until = time.monotonic() + min(LONGEST, max(FIRST, waited / SHARE))
    glance = min(SLOW, max(QUICK, waited / 4 / SHARE))
    while (left := until - time.monotonic()) > 0:
        pause(min(glance, left))
        if (proof is not None and proof.exists()) or has_messages(ctx):
            return


def was_killed(status: dict[str, Any]) -> bool:
    """Whether the job, or who guarded it, was ended from outside: nobody's work is to blame, it is launched again."""
    return status["state"] == "lost" or bool(status["exit"] and Exit.model_validate(status["exit"]).killed)


def stopping_finding(status: dict[str, Any]) -> dict[str, Any] | None:
    """The finding for which a running job shall be stopped."""
    found = status.get("findings", ()) if status["state"] == "running" else ()
    return next((f for f in found if f["level"] == "stop"), None)


def wait_until_over(poll: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The status of a job that was told to end, once it has."""
    began = time.monotonic()
    while (status := poll())["state"] == "running" and time.monotonic() - began < ENDING:
        pause(FIRST)
    return status


def _warn(ctx: Context, job: str, status: dict[str, Any], warned: set[str]) -> set[str]:
    """Say each kind of finding once."""
    new = {f["kind"]: f for f in status.get("findings", ()) if f["kind"] not in warned and f["level"] == "warning"}
    for finding in new.values():
        ctx.emit(finding_event(ctx, job, finding, status))
    return set(new)


def finding_event(ctx: Context, job: str, finding: dict[str, Any], status: dict[str, Any]) -> MonitorFinding:
    """The event."""
    return MonitorFinding(
        experiment=ctx.state.experiment,
        job=job,
        failure=finding["kind"],
        text=finding["text"],
        step=finding["step"],
        total=status.get("total", 0),
        stops=finding["level"] == "stop",
    )


def _say(ctx: Context, job: str, status: dict[str, Any]) -> None:
    loss = status.get("loss")
    note = status.get("note", "") if loss is None else f"loss {loss:.3f}"
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
