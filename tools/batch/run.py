"""Run a batch: start what fits, watch it, go on with what was interrupted, until every run has its end.

Each run is a process of its own that outlives this one. All that a batch remembers lies in `batches/<id>/`: `batch.json`,
written once, and `attempts.json`. Whoever resumes it reads the rest from the runs' own folders.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.event_log import last_event
from tuneloop.core.events import RunPaused
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import try_lock
from tuneloop.core.run_lease import is_worked_on
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.detached import is_readable, start_command_line
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.tasks import BatchTask
from tuneloop.tools.llm_proxy.access import endpoint_environment
from tuneloop.tools.runs.messages import request_pause
from tuneloop.tools.runs.start import LOG, refusal_line
from tuneloop.tools.runs.status import TAIL, last_node

TaskState = Literal["waiting", "running", "finished", "failed"]
ATTEMPTS = 3  # starts of one run before it counts as failed
GLANCE = 1.0
START_SECONDS = 60.0  # until a run that was just started holds its lock


class Batch(BaseModel):
    """`batch.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    parallel: int
    tasks: tuple[BatchTask, ...]


class Attempts(BaseModel):
    """`attempts.json`: starts by run, the GPUs of the last one, and why a run has failed for good."""

    started: dict[str, int] = {}
    gpus: dict[str, tuple[int, ...]] = {}
    failed: dict[str, str] = {}


@dataclass(frozen=True)
class BatchFolder:
    """`batches/<id>/`."""

    home: Home
    id: str

    @property
    def root(self) -> Path:
        """The folder."""
        return self.home.root / "batches" / self.id

    @property
    def batch(self) -> Path:
        """What was asked for."""
        return self.root / "batch.json"

    @property
    def attempts(self) -> Path:
        """What was tried."""
        return self.root / "attempts.json"

    @property
    def lock(self) -> Path:
        """Held by the process that drives the batch."""
        return self.root / "lock"

    @property
    def stop(self) -> Path:
        """There while the process that drives the batch is asked to stop."""
        return self.root / "stop"

    def read(self) -> Batch:
        """Raises InvalidRequestError when there is no such batch."""
        if not self.batch.is_file():
            there = sorted(p.parent.name for p in self.root.parent.glob("*/batch.json"))
            raise InvalidRequestError(f"no batch {self.id!r}; right is one of {', '.join(there) or 'none yet'}")
        return read_model(self.batch, Batch)


@dataclass(frozen=True)
class TaskStatus:
    """Where one run of a batch stands."""

    task: BatchTask
    state: TaskState
    reason: str = ""
    place: str = ""  # experiment and node of a run at work


@dataclass
class BatchDriver:
    """Drives one batch; `ended`: descriptors that close when a process we started does."""

    folder: BatchFolder
    batch: Batch
    devices: Devices
    tried: Attempts
    settings: Settings
    ended: dict[str, int] = field(default_factory=dict)

    def step(self) -> list[TaskStatus]:
        """Look at every run, start what may start; where they stand now."""
        found = [self.status(task) for task in self.batch.tasks]
        for status in found:
            if status.state == "failed" and status.task.run_id not in self.tried.failed:
                self._give_up(status.task, status.reason)
            if status.state != "running":
                self.devices.give_back(status.task)
        running = sum(status.state == "running" for status in found)
        for i, status in enumerate(found):
            if status.state == "waiting" and running < self.batch.parallel:
                gpus = self.devices.take(status.task)
                if gpus is not None:
                    found[i] = self.start(status.task, gpus)
                    running += found[i].state == "running"
        return found

    def status(self, task: BatchTask) -> TaskStatus:
        """Where a run stands, from its own folder."""
        run = self.folder.home.run(task.run_id)
        if self._works(task, run):
            node, experiment = last_node(run) if run.events.is_file() else ("starting", 0)
            return TaskStatus(task, "running", place=f"experiment {experiment}, {node}" if experiment else node)
        if run.report_json.is_file():
            return TaskStatus(task, "finished")
        if reason := self.tried.failed.get(task.run_id):
            return TaskStatus(task, "failed", reason)
        if self.tried.started.get(task.run_id, 0) >= ATTEMPTS:
            return TaskStatus(task, "failed", pause_reason(run))
        return TaskStatus(task, "waiting")

    def start(self, task: BatchTask, gpus: tuple[int, ...]) -> TaskStatus:
        """Start or resume a run in the background."""
        run = self.folder.home.run(task.run_id)
        self.tried.started[task.run_id] = self.tried.started.get(task.run_id, 0) + 1
        self.tried.gpus[task.run_id] = gpus
        self._save()
        run.root.mkdir(parents=True, exist_ok=True)
        words = ("resume", run.id) if run.spec.is_file() else task.words
        try:
            handle = start_command_line(
                *words, cwd=Path.cwd(), log=run.root / LOG, env=task_environment(task, gpus, self.settings)
            )
        except InfrastructureError as e:
            self.devices.give_back(task)
            return self._give_up(task, str(e))
        self.ended[task.run_id] = handle
        return TaskStatus(task, "running")

    def stop(self) -> list[TaskStatus]:
        """Ask every run at work to pause, which is no failed start; where they stand."""
        for task in self.batch.tasks:
            run = self.folder.home.run(task.run_id)
            deadline = time.monotonic() + START_SECONDS
            while self._works(task, run) and not is_worked_on(run.root) and time.monotonic() < deadline:
                pause(GLANCE / 10)
            if is_worked_on(run.root) and request_pause(run):
                self.tried.started.pop(task.run_id, None)
        self._save()
        return [self.status(task) for task in self.batch.tasks]

    def _works(self, task: BatchTask, run: RunFolder) -> bool:
        """Whether a process works on it: ours, or one from before."""
        handle = self.ended.get(task.run_id)
        if handle is None:
            return is_worked_on(run.root)
        if not is_readable(handle, 0):
            return True
        os.close(self.ended.pop(task.run_id))
        if is_worked_on(run.root):  # another process went on with it
            return True
        if not run.spec.is_file():
            self._give_up(task, pause_reason(run))
        return False

    def _give_up(self, task: BatchTask, reason: str) -> TaskStatus:
        self.tried.failed[task.run_id] = reason
        self._save()
        return TaskStatus(task, "failed", reason)

    def _save(self) -> None:
        write_json(self.folder.attempts, self.tried.model_dump(mode="json"))


def create_batch(folder: BatchFolder, batch: Batch, devices: Devices) -> None:
    """Write `batch.json`. Raises InvalidRequestError when the name is taken or no device would ever do for a task."""
    for task in batch.tasks:
        devices.check(task)
    if folder.batch.is_file():
        raise InvalidRequestError(
            f"batch {folder.id!r} exists; right is tuneloop batch resume {folder.id}, or another name"
        )
    folder.root.mkdir(parents=True, exist_ok=True)
    write_json(folder.batch, batch.model_dump(mode="json"))


@contextmanager
def open_batch(folder: BatchFolder, devices: Devices, settings: Settings) -> Iterator[BatchDriver]:
    """The batch with its lock held; runs go on when it is left. Raises InvalidRequestError when another process has it."""
    batch = folder.read()
    with try_lock(folder.lock) as held:
        if held is None:
            raise InvalidRequestError(
                f"batch {folder.id} is driven by another process: tuneloop batch report {folder.id}"
            )
        folder.stop.unlink(missing_ok=True)
        tried = read_model(folder.attempts, Attempts) if folder.attempts.is_file() else Attempts()
        driver = BatchDriver(folder, batch, devices, tried, settings)
        for task in batch.tasks:
            if is_worked_on(folder.home.run(task.run_id).root):
                devices.hold(task, tried.gpus.get(task.run_id, ()))
        try:
            yield driver
        finally:
            for handle in driver.ended.values():
                os.close(handle)


def find_batch(home: Home, name: str | None) -> BatchFolder:
    """The batch of that name, the newest one without a name. Raises InvalidRequestError when there is none."""
    if name:
        folder = BatchFolder(home, home.run(name).id)
        folder.read()
        return folder
    newest = next(iter(all_batches(home)), None)
    if newest is None:
        raise InvalidRequestError("no batch yet; right is tuneloop batch tasks.json")
    return newest


def all_batches(home: Home) -> list[BatchFolder]:
    """Every batch, the newest first."""
    there = sorted(home.root.glob("batches/*/batch.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    return [BatchFolder(home, file.parent.name) for file in there]


def batch_status(folder: BatchFolder, settings: Settings) -> list[TaskStatus]:
    """Where the runs of a batch stand, for who only looks. Raises InvalidRequestError when there is no such batch."""
    batch = folder.read()
    tried = read_model(folder.attempts, Attempts) if folder.attempts.is_file() else Attempts()
    driver = BatchDriver(folder, batch, Devices({}), tried, settings)
    return [driver.status(task) for task in batch.tasks]


def drive_batch(driver: BatchDriver, show: Callable[[list[TaskStatus]], None]) -> list[TaskStatus]:
    """Until every run has finished or failed, or the batch is stopped; `show` is called after each look."""
    while True:
        stopped = driver.folder.stop.exists()
        found = driver.stop() if stopped else driver.step()
        show(found)
        if stopped or is_over(found):
            return found
        pause(GLANCE)


def is_over(found: Sequence[TaskStatus]) -> bool:
    """Whether every run has finished or failed."""
    return all(status.state in ("finished", "failed") for status in found)


def retry_failed(driver: BatchDriver) -> None:
    """What had failed is tried again: somebody asked for it."""
    for run_id in list(driver.tried.failed):
        del driver.tried.failed[run_id]
        driver.tried.started.pop(run_id, None)


def task_environment(task: BatchTask, gpus: tuple[int, ...], settings: Settings) -> dict[str, str]:
    """What a run's process gets beside our own environment: a key is not taken along to another endpoint than its own."""
    named = gpus or (task.gpus if isinstance(task.gpus, tuple) else ())
    own = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, named))} if named or task.gpus == 0 else {}
    if not task.port:
        return own
    return {**own, **endpoint_environment(settings, f"http://localhost:{task.port}/v1")}


def pause_reason(run: RunFolder) -> str:
    """Why a run did not come to its end."""
    found = last_event(run.events, "run_paused", TAIL) if run.events.is_file() else None
    if isinstance(found, RunPaused):
        return found.reason
    said = refusal_line(run.root / LOG, 0) if (run.root / LOG).is_file() else ""
    return said or "ended without a reason"
