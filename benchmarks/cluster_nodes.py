"""Nodes of a cluster that exist on paper: jobs take drawn times, nodes fail, and time that nobody computes in is skipped.

The clock is the machine's own, moved forward whenever every experiment waits for a job. What the orchestrator computes takes the
time that it takes here.
"""

from __future__ import annotations

import heapq
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from cluster_files import leave_results

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.job import ALIVE, CLAIM, TICKET, Command, Exit, JobStatus, Sandbox
from tuneloop.sandboxes.cluster import LOST
from tuneloop.sandboxes.jobs import wait as wait_for_end

HOUR, DAY = 3600.0, 86400.0
REPAIR_MEAN, REPAIR_MEDIAN = 355 * 60.0, 54 * 60.0  # log-normal: Schroeder and Gibson 2006
RESTART = 300.0  # seconds until a training that is begun again is at its checkpoint
EARLY = 0.1  # of its time after which a training fails that fails


@dataclass(frozen=True)
class World:
    """What is drawn. `hours`: mean of a training, `spread` its coefficient of variation; `failing`: share of trainings that fail.

    `node_days`: days between two failures of a node; `checkpoint`: seconds between two of a training's.
    """

    nodes: int = 100
    hours: float = 6.0
    spread: float = 0.3
    failing: float = 0.15
    node_days: float = 1000 / 6.5
    checkpoint: float = HOUR / 2
    smoke: float = 180.0
    evaluation: float = 900.0
    seed: int = 1

    def seconds(self, job: Path) -> tuple[float, bool]:
        """How long a job takes, the same for each of its attempts, and whether it fails then."""
        name, number = job.name.partition(".")[0], job.parent.parent.name
        rng = random.Random(f"{self.seed} {number} {name}")
        if name != "train":
            return (self.smoke if name == "smoke_run" else self.evaluation) * rng.uniform(0.8, 1.2), False
        sigma = math.sqrt(math.log(1 + self.spread**2))
        took, fails = self.hours * HOUR * math.exp(rng.gauss(-sigma * sigma / 2, sigma)), rng.random() < self.failing
        return took * (EARLY if fails else 1.0), fails


@dataclass
class SimulatedJob:
    """An attempt. `left`: seconds of work from where it begins; `began`: when a node took it."""

    folder: Path
    left: float
    fails: bool
    node: int = -1
    began: float = 0.0
    state: str = "queued"
    woken: threading.Event = field(default_factory=threading.Event)
    sleeps: bool = False


@dataclass(frozen=True)
class Worked:
    """A node's time with an attempt; `lost`: seconds at its end that have to be done again."""

    began: float
    ended: float
    lost: float
    first: str  # experiment/job.attempt


class Cluster:
    """Nodes, their queue and the clock. One lock guards all."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, random.Random(world.seed)
        self.offset, self.numbers = 0.0, count()
        self.changed = threading.Condition(threading.RLock())
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.free, self.queue = list(range(world.nodes)), deque[SimulatedJob]()
        self.running = dict[int, SimulatedJob]()
        self.jobs = dict[Path, SimulatedJob]()
        self.saved = dict[Path, float]()  # seconds of a training that its checkpoints hold
        self.worked, self.down, self.failures = list[Worked](), 0.0, 0
        self.sleeping, self.beside, self.seen = 0, False, set[Future[Any]]()
        for node in range(world.nodes):
            self.at(self.now() + self.rng.expovariate(1 / (world.node_days * DAY)), self.fail, node)

    def now(self) -> float:
        """Seconds on the simulated clock."""
        return time.monotonic() + self.offset

    def at(self, when: float, act: Callable[..., None], *what: Any) -> None:
        """Have something happen."""
        heapq.heappush(self.events, (when, next(self.numbers), act, what))

    def release(self, until: float) -> None:
        """Let everything happen up to a moment, which is now afterwards if it was still to come."""
        while self.events and self.events[0][0] <= until:
            when, _, act, what = heapq.heappop(self.events)
            self.offset += max(0.0, when - self.now())
            act(when, *what)

    def skip(self) -> None:
        """Go to the next thing that happens."""
        self.release(max(self.now(), self.events[0][0]))

    def submit(self, folder: Path) -> None:
        """Queue an attempt."""
        took, fails = self.world.seconds(folder)
        task = folder.with_suffix("")
        done = self.saved.get(task, 0.0)
        with self.changed:
            job = self.jobs[folder] = SimulatedJob(folder, took - done + (RESTART if done else 0.0), fails)
            self.queue.append(job)
            self.place(self.now())

    def place(self, now: float) -> None:
        """Give free nodes what waits."""
        while self.free and self.queue:
            job = self.queue.popleft()
            job.node, job.began, job.state = heapq.heappop(self.free), now, "running"
            self.running[job.node] = job
            self.at(now + job.left, self.end, job)

    def end(self, now: float, job: SimulatedJob) -> None:
        """A job is over, unless its node failed before."""
        if job.state != "running":
            return
        self.vacate(job, now, 0.0)
        heapq.heappush(self.free, job.node)
        end = Exit(
            code=int(job.fails), reason="finished", seconds=round(job.left, 1), peak_memory=1 << 30, cpu=job.left
        )
        write_json(job.folder / "exit.json", end.model_dump(mode="json"))
        self.wake(job, "over")
        self.place(now)

    def fail(self, now: float, node: int) -> None:
        """A node fails; it is repaired, and its job is missed after a while."""
        sigma = math.sqrt(2 * math.log(REPAIR_MEAN / REPAIR_MEDIAN))
        away = self.rng.lognormvariate(math.log(REPAIR_MEDIAN), sigma)
        self.failures, self.down = self.failures + 1, self.down + away
        self.at(now + away, self.repair, node)
        self.at(now + away + self.rng.expovariate(1 / (self.world.node_days * DAY)), self.fail, node)
        if node in self.free:
            self.free.remove(node)
            heapq.heapify(self.free)
        elif job := self.running.get(node):
            task, kept = job.folder.with_suffix(""), 0.0
            if task.name == "train":
                kept = (now - job.began) // self.world.checkpoint * self.world.checkpoint
                self.saved[task] = self.saved.get(task, 0.0) + kept
            self.vacate(job, now, now - job.began - kept)
            job.state = "missing"
            self.at(now + LOST, lambda _, one: self.wake(one, "lost"), job)

    def repair(self, now: float, node: int) -> None:
        """A node is back."""
        heapq.heappush(self.free, node)
        self.place(now)

    def vacate(self, job: SimulatedJob, now: float, lost: float) -> None:
        """Book a node's time."""
        del self.running[job.node]
        self.worked.append(Worked(job.began, now, lost, f"{job.folder.parent.parent.name}/{job.folder.name}"))

    def wake(self, job: SimulatedJob, state: str) -> None:
        """Tell who waits for it."""
        job.state = state
        self.rouse(job)

    def rouse(self, job: SimulatedJob) -> None:
        """Have who waits look again."""
        if job.sleeps:
            job.sleeps = False
            self.sleeping -= 1
            job.woken.set()

    def sleep(self, folder: Path) -> None:
        """Wait for a job: time is skipped once everybody does."""
        job = self.jobs[folder]
        with self.changed:
            while not self.beside and job.state in ("queued", "running", "missing"):
                self.skip()
            if job.state not in ("queued", "running", "missing"):
                return
            job.woken.clear()
            job.sleeps = True
            self.sleeping += 1
            self.changed.notify_all()
        job.woken.wait()

    def wait(self, work: dict[Future[Any], int]) -> Any:
        """What of the orchestrator's work is done, in place of `concurrent.futures.wait`; None: everybody waits for a job."""
        with self.changed:
            self.beside = True
            for future in work.keys() - self.seen:
                self.seen.add(future)
                future.add_done_callback(self.notify)
            while not any(future.done() for future in work):
                self.release(self.now())
                if self.sleeping == len(work):
                    return None
                self.changed.wait(1.0)
        return wait(work, 0)

    def notify(self, _: Future[Any]) -> None:
        """Something is done."""
        with self.changed:
            self.changed.notify_all()


class SimulatedSandbox:
    """`--executor slurm` on these nodes. What stays on the orchestrator's machine there is run once here and then copied."""

    def __init__(self, cluster: Cluster, inner: Sandbox) -> None:
        self.cluster, self.inner = cluster, inner
        self.kind, self.powers, self.stop_seconds, self.note = inner.kind, inner.powers, inner.stop_seconds, ""
        self.written, self.guard = dict[tuple[str, ...], bytes](), threading.Lock()

    def check_reachable(self, folder: Path) -> None:
        """Everything is here."""

    def start(self, folder: Path, command: Command) -> None:
        """Queue a job, its results ready; a data script runs at once."""
        if command.generated:
            self.run_script(folder, command)
            return
        write_json(folder / "command.json", command.model_dump(mode="json"))
        number = abs(hash(folder)) % 10**6
        write_atomic(folder / TICKET, str(number))
        write_atomic(folder / CLAIM, f"node {number} 1")
        leave_results(folder, command, self.cluster.world.seed)
        write_atomic(folder / ALIVE, "")
        self.cluster.submit(folder)

    def run_script(self, folder: Path, command: Command) -> None:
        """The same script writes the same rows: it is run the first time only."""
        key, data = (Path(command.argv[1]).read_text(), *command.argv[2:]), Path(command.cwd) / "data.json"
        with self.guard:
            if key not in self.written:
                self.inner.start(folder, command)
                wait_for_end(self.inner, folder, every=0.02)
                self.written[key] = data.read_bytes()
                return
        write_json(folder / "command.json", command.model_dump(mode="json"))
        data.write_bytes(self.written[key])
        write_json(folder / "exit.json", Exit(code=0, reason="finished", seconds=1.0).model_dump(mode="json"))

    def poll(self, folder: Path) -> JobStatus:
        """As its files say."""
        job = self.cluster.jobs.get(folder)
        if job is None or job.state == "over":
            return self.inner.poll(folder)
        return JobStatus(state="lost" if job.state == "lost" else "running")

    def stop(self, folder: Path, grace: float = 5.0) -> None:
        """Nothing is stopped in a simulation."""
