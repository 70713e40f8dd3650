"""Tools without a run: an evaluation's own folder, its jobs, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, PausedError, RecipeError
from tuneloop.core.job import JobStatus, Sandbox
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.score import Score
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.jobs import log_tail
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.evaluation import jobs as pipeline
from tuneloop.tools.evaluation.item_sets import Pair
from tuneloop.tools.evaluation.jobs import Evaluation
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.jobs.progress import last_progress
from tuneloop.tools.jobs.run_tools import RunTools

KILLS = 5  # of its jobs before somebody has to look
LOOK = 0.2  # seconds


def ignore_progress(what: str, done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class StandaloneRunTools(RunTools):
    """`run` is the evaluation's folder, which has no run in it."""

    kind: SandboxKind = "auto"
    computes_on: str = "cpu"
    say: Progress = ignore_progress

    @cached_property
    def sandbox(self) -> Sandbox:
        """Where jobs go."""
        return open_sandbox(self.kind)

    @property
    def device(self) -> str:
        """Cpu or cuda."""
        return self.computes_on

    @property
    def threads(self) -> int:
        """An evaluation's job says itself how many it has."""
        return 1

    def engine(self, name: str) -> Engine:
        """The engine of this release, built when it is not there. Raises InvalidRequestError."""
        return ensure_engine(name, self.settings, self.say)


def run_evaluation(e: Evaluation, say: Progress) -> dict[Pair, Score]:
    """Launch what is needed, wait for it, and read the scores. Raises InfrastructureError with the reason where a job failed.

    Whoever interrupts ends the job; what it left is found the next time.
    """
    for _ in range(KILLS * len(pipeline.JOBS)):
        name = pipeline.advance_evaluation(e)
        if name is None:
            break
        status = wait_for(e.run_tools, e.folder.jobs, name, say, lambda: pipeline.stop_jobs(e.folder))
        if not pipeline.exited_cleanly(status) and not status.killed:
            break
    try:
        return pipeline.collect_scores(e)
    except RecipeError as failed:
        raise InfrastructureError(str(failed)) from failed


def wait_for(run_tools: RunTools, jobs: Path, name: str, say: Progress, stop: Callable[[], None]) -> JobStatus:
    """Until the job is over, or lost; interrupted, it is ended."""
    try:
        while True:
            status, folder = run_tools.status(jobs, name)
            if folder is not None:
                done, total = last_progress(folder / "log.txt")
                say(name, done, total)
            if status.state != "running":
                return status
            pause(LOOK)
    except (KeyboardInterrupt, PausedError):
        stop()
        raise


def last_error_line(run_tools: RunTools, jobs: Path, name: str) -> str:
    """The last line of a job's log that says what was wrong."""
    _, folder = run_tools.status(jobs, name)
    lines = log_tail(folder).splitlines() if folder else []
    return next((line.removeprefix("error: ") for line in reversed(lines) if line.startswith("error: ")), "")
