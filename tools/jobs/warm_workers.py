"""Warm engines of a run: one worker an engine, itself a job, that forks the engine's jobs without importing again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tuneloop.core.async_bridge import pause
from tuneloop.core.files import digest
from tuneloop.core.job import Command
from tuneloop.sandboxes.jobs import launch, newest_attempt, read_command, same_command
from tuneloop.sandboxes.warm_job import retire_worker
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring import answer_matching

if TYPE_CHECKING:
    from tuneloop.tools.jobs.run_tools import RunTools

SCORERS = Path(answer_matching.__file__).resolve().parent
IDLE_SECONDS = 600.0
IDLE = 75  # exit status of a worker that had nothing to do, or was retired
START_SECONDS = 120.0
END_SECONDS = 2.0


def worker_jobs(run_tools: RunTools) -> Path:
    """Where a run's workers are jobs."""
    return run_tools.run.root / "workers"


def worker_folder(run_tools: RunTools, engine: str) -> Path:
    """A worker's own folder; its socket lies there."""
    return run_tools.run.root / "work" / engine


def warm_up(run_tools: RunTools) -> None:
    """Start every engine's worker, or find it running; waits for none."""
    for engine in ENGINE_BLUEPRINTS:
        start_worker(run_tools, engine)


@contextmanager
def warm_engines(run_tools: RunTools) -> Iterator[None]:
    """Workers while a run is driven: started at once where the run is prepared, retired in the end.

    A run whose report is written needs none: nobody would come back to retire them after a kill.
    """
    if run_tools.run.setup.is_file() and not run_tools.run.report_json.is_file():
        warm_up(run_tools)
    try:
        yield
    finally:
        if run_tools.run.setup.is_file():
            stop_workers(run_tools)


def worker_for(run_tools: RunTools, engine: str) -> str:
    """The socket of the engine's worker, started if need be and waited for; nobody listens where it did not come up."""
    place = worker_folder(run_tools, engine) / "socket"
    for _ in range(2):  # the first one may have been about to end
        folder = start_worker(run_tools, engine)
        if folder is None or wait_for_worker(run_tools, folder, place):
            break
    return str(place)


def wait_for_worker(run_tools: RunTools, worker: Path, place: Path) -> bool:
    """Wait until a worker listens; False when it ended, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not place.exists() and time.monotonic() < deadline:
        if run_tools.sandbox.poll(worker).state != "running":
            return False
        pause(0.02)
    return True


def start_worker(run_tools: RunTools, engine: str) -> Path | None:
    """The worker's job; None when this very worker failed before and would fail again."""
    command, jobs = worker_command(run_tools, engine), worker_jobs(run_tools)
    last = newest_attempt(jobs, engine)
    end = run_tools.sandbox.poll(last).exit if last else None
    if last and end and end.reason == "finished" and end.code != IDLE and same_command(read_command(last), command):
        return None

    def ready(command: Command) -> Command:
        (worker_folder(run_tools, engine) / "socket").unlink(missing_ok=True)  # a predecessor's that was killed
        return command

    return launch(run_tools.sandbox, jobs, engine, command, retry=end is not None and end.code == IDLE, ready=ready)


def worker_command(run_tools: RunTools, name: str) -> Command:
    """The worker as a job: it sees engine, scripts, base model and the run; its key is what it has imported."""
    engine, place, files = run_tools.engine(name), worker_folder(run_tools, name), run_tools.settings.scorer_folder
    place.mkdir(parents=True, exist_ok=True)
    sources = sorted((*ENGINES.glob("*.py"), *(ENGINES / name).glob("*.py")))
    own = {"XDG_CACHE_HOME": str(place / "cache"), "PATH": f"{engine.bin}:/usr/bin:/bin"}
    env = {**run_tools.environment(place), **own, **engine.env}
    return Command(
        argv=(str(engine.python), str(ENGINES / "worker.py"), str(ENGINES / name), str(IDLE_SECONDS)),
        cwd=str(place),
        env=env,
        read=(
            *engine.readable,
            str(ENGINES),
            str(SCORERS),
            str(run_tools.setup.model_root),
            *([str(files)] if files else []),
        ),
        write=(str(run_tools.run.root),),
        key=digest(engine.identity, repr(sorted(env.items())), str(files), *(path.read_bytes() for path in sources)),
    )


def stop_workers(run_tools: RunTools) -> None:
    """Tell the workers to end when their last job is over; waits a moment for those without one."""
    running = []
    for engine in ENGINE_BLUEPRINTS:
        folder, place = newest_attempt(worker_jobs(run_tools), engine), worker_folder(run_tools, engine) / "socket"
        if folder is not None and run_tools.sandbox.poll(folder).state == "running":
            running.append(folder)
            if not retire_worker(str(place)):
                run_tools.sandbox.stop(folder, grace=0)
        else:
            place.unlink(missing_ok=True)
    deadline = time.monotonic() + END_SECONDS
    while any(run_tools.sandbox.poll(folder).state == "running" for folder in running) and time.monotonic() < deadline:
        pause(0.02)
