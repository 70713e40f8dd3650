"""Warm engines of a run: one worker an engine, itself a job, that forks the engine's jobs without importing again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tuneloop.core.bridge import pause
from tuneloop.core.files import digest
from tuneloop.core.job import Command
from tuneloop.sandboxes.jobs import launch, newest, read_command, same
from tuneloop.sandboxes.warm import retire
from tuneloop.tools.benchmarks import scoring
from tuneloop.tools.engines.blueprint import BLUEPRINTS
from tuneloop.tools.paths import ENGINES

if TYPE_CHECKING:
    from tuneloop.tools.workbench import Workbench

SCORERS = Path(scoring.__file__).resolve().parent
IDLE_SECONDS = 600.0
IDLE = 75  # exit status of a worker that had nothing to do, or was retired
START_SECONDS = 120.0
END_SECONDS = 2.0


def jobs_of(bench: Workbench) -> Path:
    """Where a run's workers are jobs."""
    return bench.run.root / "workers"


def scratch(bench: Workbench, engine: str) -> Path:
    """A worker's own folder; its socket lies there."""
    return bench.run.root / "work" / engine


def warm_up(bench: Workbench) -> None:
    """Start every engine's worker, or find it running; waits for none."""
    for engine in BLUEPRINTS:
        start(bench, engine)


@contextmanager
def warm_engines(bench: Workbench) -> Iterator[None]:
    """Workers while a run is driven: started at once where the run is prepared, retired in the end.

    A run whose report is written needs none: nobody would come back to retire them after a kill.
    """
    if bench.run.setup.is_file() and not bench.run.report_json.is_file():
        warm_up(bench)
    try:
        yield
    finally:
        if bench.run.setup.is_file():
            stop_workers(bench)


def worker_for(bench: Workbench, engine: str) -> str:
    """The socket of the engine's worker, started if need be and waited for; nobody listens where it did not come up."""
    place = scratch(bench, engine) / "socket"
    for _ in range(2):  # the first one may have been about to end
        folder = start(bench, engine)
        if folder is None or came_up(bench, folder, place):
            break
    return str(place)


def came_up(bench: Workbench, worker: Path, place: Path) -> bool:
    """Wait until a worker listens; False when it ended, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not place.exists() and time.monotonic() < deadline:
        if bench.sandbox.poll(worker).state != "running":
            return False
        pause(0.02)
    return True


def start(bench: Workbench, engine: str) -> Path | None:
    """The worker's job; None when this very worker failed before and would fail again."""
    command, jobs = worker_command(bench, engine), jobs_of(bench)
    last = newest(jobs, engine)
    end = bench.sandbox.poll(last).exit if last else None
    if last and end and end.reason == "finished" and end.code != IDLE and same(read_command(last), command):
        return None

    def ready(command: Command) -> Command:
        (scratch(bench, engine) / "socket").unlink(missing_ok=True)  # a predecessor's that was killed
        return command

    return launch(bench.sandbox, jobs, engine, command, retry=end is not None and end.code == IDLE, ready=ready)


def worker_command(bench: Workbench, name: str) -> Command:
    """The worker as a job: it sees engine, scripts, base model and the run; its key is what it has imported."""
    engine, place, files = bench.engine(name), scratch(bench, name), bench.settings.scorer_folder
    place.mkdir(parents=True, exist_ok=True)
    sources = sorted((*ENGINES.glob("*.py"), *(ENGINES / name).glob("*.py")))
    own = {"XDG_CACHE_HOME": str(place / "cache"), "PATH": f"{engine.bin}:/usr/bin:/bin"}
    env = {**bench.environment(place), **own, **engine.env}
    return Command(
        argv=(str(engine.python), str(ENGINES / "worker.py"), str(ENGINES / name), str(IDLE_SECONDS)),
        cwd=str(place),
        env=env,
        read=(
            *engine.readable,
            str(ENGINES),
            str(SCORERS),
            str(bench.setup.model_root),
            *([str(files)] if files else []),
        ),
        write=(str(bench.run.root),),
        key=digest(engine.identity, repr(sorted(env.items())), str(files), *(path.read_bytes() for path in sources)),
    )


def stop_workers(bench: Workbench) -> None:
    """Tell the workers to end when their last job is over; waits a moment for those without one."""
    running = []
    for engine in BLUEPRINTS:
        folder, place = newest(jobs_of(bench), engine), scratch(bench, engine) / "socket"
        if folder is not None and bench.sandbox.poll(folder).state == "running":
            running.append(folder)
            if not retire(str(place)):
                bench.sandbox.stop(folder, grace=0)
        else:
            place.unlink(missing_ok=True)
    deadline = time.monotonic() + END_SECONDS
    while any(bench.sandbox.poll(folder).state == "running" for folder in running) and time.monotonic() < deadline:
        pause(0.02)
