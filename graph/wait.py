"""Wait for a job: report progress, process the inbox, enforce the deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import PausedError, RecipeError
from tuneloop.core.events import JobProgress, MonitorFinding
from tuneloop.core.experiment import TrainingFinding
from tuneloop.core.job import JobReport, JobStatus
from tuneloop.core.protocols import TrainingStatus
from tuneloop.graph.budget.gate import warn_near_limits
from tuneloop.graph.context import Context
from tuneloop.graph.steering.inbox_listener import has_messages, raise_if_paused

# Seconds between looks: a sixth of the time waited so far, so that short jobs are not delayed and long ones are cheap.
FIRST, LONGEST, SHARE, SAID = 0.25, 5.0, 6, 2.0
# Seconds between checks of the job's proof of completion and of the inbox; both are cheap.
QUICK, SLOW = 0.05, 0.5
Status = TypeVar("Status", bound=JobStatus)
KILLS = 5  # of one job in one session before the run pauses: something keeps ending it
ENDING = 300.0  # seconds to watch a job end before the run pauses without it


def wait_for_job(
    ctx: Context, job: str, poll: Callable[[], Status], stop: Callable[[], object], proof: Path | None = None
) -> Status:
    """Poll until the job is no longer running, or a finding of its watch says that it shall end; the last status.

    `proof` is the file that says that it is over: with it nobody waits for the next poll. Raises PausedError (the job is
    ended first) when the inbox says so, RecipeError when the run's time is over.
    """
    if ctx.run.training > 1:
        job = f"{job} with seed {ctx.run_tools.spec.seed + ctx.run.training - 1}"
    began, said, last, warned = time.monotonic(), 0.0, (-1, -1), set[str]()
    clock, looked = ctx.clock(), began
    every = SAID * ctx.run_tools.spec.parallel  # all experiments side by side look at the same limits
    while (status := poll()).state == "running":
        now = time.monotonic()
        seen = progress(status)
        if seen != last and now - said >= SAID:
            said, last = now, seen
            _say(ctx, job, status)
        warned |= _warn(ctx, job, status, warned)
        if now - looked >= every and ctx.state.spent >= 0:
            looked = now
            warn_near_limits(ctx, ctx.worked)
        if stopping_finding(status):
            return status
        try:
            raise_if_paused(ctx)
        except PausedError:
            stop()
            wait_until_over(poll)
            raise
        left = clock()
        if left is not None and left < 0:
            first = ctx.first_limit(ctx.worked)
            stop()
            raise RecipeError(f"the run's {first} was over during {job}", culprit="environment")
        sleep_until_poll(ctx, now - began, proof)
    if progress(status)[1]:
        _say(ctx, job, status)
    return status


def sleep_until_poll(ctx: Context, waited: float, proof: Path | None) -> None:
    """Sleep until the next poll, the end of the job or a request for a pause."""
    until = time.monotonic() + min(LONGEST, max(FIRST, waited / SHARE))
    glance = min(SLOW, max(QUICK, waited / 4 / SHARE))
    while (left := until - time.monotonic()) > 0:
        pause(min(glance, left))
        if (proof is not None and proof.exists()) or has_messages(ctx):
            return


def progress(status: JobStatus) -> tuple[int, int]:
    """Done and total; (0, 0) of a job that does not tell."""
    return (status.done, status.total) if isinstance(status, JobReport) else (0, 0)


def findings(status: JobStatus) -> tuple[TrainingFinding, ...]:
    """What the watch of a training says; only trainings have one."""
    return status.findings if isinstance(status, TrainingStatus) else ()


def stopping_finding(status: JobStatus) -> TrainingFinding | None:
    """The finding for which a running job shall be stopped."""
    return next((f for f in findings(status) if f.level == "stop" and status.state == "running"), None)


def wait_until_over(poll: Callable[[], Status]) -> Status:
    """The status of a job that was told to end, once it has."""
    began = time.monotonic()
    while (status := poll()).state == "running" and time.monotonic() - began < ENDING:
        pause(FIRST)
    return status


def _warn(ctx: Context, job: str, status: JobStatus, warned: set[str]) -> set[str]:
    """Say each kind of finding once."""
    new = {f.kind: f for f in findings(status) if f.kind not in warned and f.level == "warning"}
    for finding in new.values():
        ctx.emit(finding_event(ctx, job, finding, status))
    return set(new)


def finding_event(ctx: Context, job: str, finding: TrainingFinding, status: JobStatus) -> MonitorFinding:
    """The event."""
    return MonitorFinding(
        experiment=ctx.state.experiment,
        job=job,
        failure=finding.kind,
        text=finding.text,
        step=finding.step,
        total=progress(status)[1],
        stops=finding.level == "stop",
    )


def _say(ctx: Context, job: str, status: JobStatus) -> None:
    report = status if isinstance(status, JobReport) else JobReport.of(status)
    loss = report.loss if isinstance(report, TrainingStatus) else None
    ctx.emit(
        JobProgress(
            experiment=ctx.state.experiment,
            job=job,
            done=report.done,
            total=report.total,
            unit=report.unit,
            note=report.note if loss is None else f"loss {loss:.3f}",
        )
    )
