"""Warm engines of a run: one worker an engine, itself a job, that forks the engine's jobs without importing again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.files import digest
from tuneloop.core.job import Command, Sandbox
from tuneloop.sandboxes.jobs import launch, newest_attempt, read_command, same_command
from tuneloop.sandboxes.warm_job import retire_worker
from tuneloop.tools.engines import Engine
from tuneloop.tools.engines.blueprint import USUAL
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring import answer_matching

SCORERS = Path(answer_matching.__file__).resolve().parent
IDLE_SECONDS = 600.0
IDLE = 75  # exit status of a worker that had nothing to do, or was retired
START_SECONDS = 120.0
END_SECONDS = 2.0


@dataclass(frozen=True)
class WarmWorkers:
    """Workers of one run. `command(ENGINE, FOLDER)` is a worker as a job, in a folder of its own."""

    root: Path
    sandbox: Sandbox
    command: Callable[[str, Path], Command]

    @property
    def jobs(self) -> Path:
        """Where workers are jobs."""
        return self.root / "workers"

    def folder(self, engine: str) -> Path:
        """A worker's own folder; its socket lies there."""
        return self.root / "work" / engine

    def socket(self, engine: str) -> str:
        """The socket of the engine's worker, started if need be and waited for; nobody listens where it did not come up."""
        place = self.folder(engine) / "socket"
        for _ in range(2):  # the first one may have been about to end
            worker = self.start(engine)
            if worker is None or self._wait_until_listening(worker, place):
                break
        return str(place)

    def _wait_until_listening(self, worker: Path, place: Path) -> bool:
        """False when it ended, or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not place.exists() and time.monotonic() < deadline:
            if self.sandbox.poll(worker).state != "running":
                return False
            pause(0.02)
        return True

    def start(self, engine: str) -> Path | None:
        """The worker's job; None when this very worker failed before and would fail again."""
        place = self.folder(engine)
        place.mkdir(parents=True, exist_ok=True)
        command = self.command(engine, place)
        last = newest_attempt(self.jobs, engine)
        end = self.sandbox.poll(last).exit if last else None
        if last and end and end.reason == "finished" and end.code != IDLE and same_command(read_command(last), command):
            return None

        def ready(command: Command) -> Command:
            (place / "socket").unlink(missing_ok=True)  # a predecessor's that was killed
            return command

        return launch(self.sandbox, self.jobs, engine, command, retry=end is not None and end.code == IDLE, ready=ready)

    def stop(self) -> None:
        """Tell the workers to end when their last job is over; waits a moment for those without one."""
        running = []
        for engine in USUAL:
            worker, place = newest_attempt(self.jobs, engine), self.folder(engine) / "socket"
            if worker is not None and self.sandbox.poll(worker).state == "running":
                running.append(worker)
                if not retire_worker(str(place)):
                    self.sandbox.stop(worker, grace=0)
            else:
                place.unlink(missing_ok=True)
        deadline = time.monotonic() + END_SECONDS
        while any(self.sandbox.poll(worker).state == "running" for worker in running) and time.monotonic() < deadline:
            pause(0.02)


def worker_command(
    engine: Engine, place: Path, environment: dict[str, str], read: tuple[str, ...], root: Path
) -> Command:
    """A worker as a job: it sees engine, scripts, what `read` names and the run; its key is what it has imported.

    Args:
        engine: whose jobs it forks.
        place: the worker's own folder.
        environment: that of the run's jobs in `place`.
        read: base model and the scorers' files.
        root: the run's folder, which the worker may write.
    """
    scripts = ENGINES / engine.name
    sources = sorted((*ENGINES.glob("*.py"), *scripts.glob("*.py")))
    own = {"XDG_CACHE_HOME": str(place / "cache"), "PATH": f"{engine.bin}:/usr/bin:/bin"}
    env = {**environment, **own, **engine.env}
    return Command(
        argv=(str(engine.python), str(ENGINES / "worker.py"), str(scripts), str(IDLE_SECONDS)),
        cwd=str(place),
        env=env,
        read=(*engine.readable, str(ENGINES), str(SCORERS), *read),
        write=(str(root),),
        forks=True,
        key=digest(engine.identity, repr(sorted(env.items())), *read, *(path.read_bytes() for path in sources)),
    )
