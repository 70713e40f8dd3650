"""Random kills of all that takes part in jobs on a cluster, and full disks: nothing is lost, no attempt writes beside another.

A failure ends with its seed; `FAULT_SEED=N` tries the same again.
"""

from __future__ import annotations

import collections
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.ray_cluster import SECOND
from tests.ray_cluster import Cluster as RayCluster
from tests.waiting import until
from tuneloop.core.job import Command, Exit, Limits
from tuneloop.sandboxes.cluster import job_name
from tuneloop.sandboxes.jobs import newest_attempt
from tuneloop.sandboxes.process_tree import descendants

from ..conftest import CLUSTERS, Cluster
from .cluster_driver import AT_ONCE

SEED = int(os.environ.get("FAULT_SEED", random.SystemRandom().randrange(1 << 30)))
GAP = 2.0  # seconds between kills, on average
DOWN = 6.0  # seconds that a daemon is away, at most
FENCE = 10.0  # seconds without a sign of life after which a runner ends its job; in use 30
OVER = 400.0  # seconds in which all jobs are done after the last kill
STEPS = 60
RAYS_OWN = r"/\.venv/ray/|ray::|raylet|gcs_server"
JOB = f"""
import os, sys, time
me = os.urandom(4).hex()
step = int(open('saved').read()) if os.path.exists('saved') else 0
with open('beats', 'a') as beats:
    while step < {STEPS}:
        print(me, step, file=beats, flush=True)
        time.sleep(0.1)
        step += 1
        with open('saved.part', 'w') as saved: print(step, file=saved)
        os.replace('saved.part', 'saved')
"""


@dataclass
class Storm:
    """Jobs, their driver, and what was killed."""

    nodes: Cluster
    root: Path
    rng: random.Random
    driver: subprocess.Popen[bytes] | None = None
    asked: int = 0
    killed: collections.Counter[str] = field(default_factory=collections.Counter)

    def drive(self) -> None:
        """Start the driver unless it lives."""
        if self.driver is None or self.driver.poll() is not None:
            driver = Path(__file__).parent / "cluster_driver.py"
            argv = (sys.executable, str(driver), self.nodes.executor, str(self.root), str(FENCE))
            with (self.root / "driver.log").open("ab") as log:
                self.driver = subprocess.Popen(argv, env={**os.environ, **self.nodes.env}, stdout=log, stderr=log)

    def ask(self) -> None:
        """One more job."""
        self.asked += 1
        work = self.root / "work" / f"{self.asked}"
        work.mkdir(parents=True)
        argv = (sys.executable, "-I", "-S", "-c", JOB, str(work))
        read, write = (sys.prefix, sys.base_prefix), (str(work),)
        command = Command(argv=argv, cwd=str(work), read=read, write=write, limits=Limits(seconds=600), key="k")
        part = self.root / f"job{self.asked}.part"
        part.write_text(command.model_dump_json())
        part.rename(part.with_suffix(".json"))

    def open_jobs(self) -> int:
        """Those that are not done."""
        return self.asked - len(list(self.root.glob("*.done")))

    def blow(self, kills: int) -> None:
        """So many, then everything ends in peace."""
        while self.killed.total() < kills:
            self.drive()
            while self.open_jobs() < AT_ONCE:
                self.ask()
            time.sleep(self.rng.expovariate(1 / GAP))
            what = self.rng.choice((*KINDS, *OFTEN * 2))  # daemons take their time
            if KINDS[what](self):
                self.killed[what] += 1
            self.care()
        until(self.over, seconds=OVER, every=1)

    def care(self) -> None:
        """Take nodes into service again that Slurm has put aside."""
        if not isinstance(self.nodes, RayCluster):
            self.nodes.resume_nodes()

    def over(self) -> bool:
        """Nothing is left to do for the driver, which lives."""
        self.drive()
        self.care()
        return not self.open_jobs()

    def told(self) -> str:
        """The newest attempts of jobs that are not done, with the files of each."""
        open_ = [file.stem for file in self.root.glob("*.json") if not file.with_suffix(".done").exists()]
        newest = [attempt for name in open_ if (attempt := newest_attempt(self.root / "jobs", name))]
        return "\n".join(f"{job_name(one)} {one.name}: {sorted(p.name for p in one.iterdir())}" for one in newest)

    def one_of(self, mark: str) -> list[int]:
        """A process whose command line has `mark` and a path of these jobs, or none."""
        found = [pid for pid, words in self.processes() if mark in words]
        return self.rng.sample(found, k=min(1, len(found)))

    def processes(self) -> list[tuple[int, str]]:
        """Those of these jobs."""
        found = list[tuple[int, str]]()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = entry.read_bytes().decode(errors="replace")
                if f"{self.root}/jobs/" in words or f"{self.root}/work/" in words:
                    found.append((int(entry.parts[2]), words))
        return found

    def moment(self) -> None:
        """While a daemon is away."""
        time.sleep(self.rng.uniform(0, DOWN))


def kill(pids: list[int]) -> bool:
    """Whether there was one."""
    gone = list[int]()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            gone.append(pid)
    return bool(gone)


def parent(pid: int) -> int:
    """0 of one that is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def runners_on(storm: Storm, node: str) -> list[int]:
    """On a node of Slurm."""
    found = list[int]()
    for pid, words in storm.processes():
        with suppress(OSError):
            if "node_runner" in words and f"SLURMD_NODENAME={node}\0" in Path(f"/proc/{pid}/environ").read_text():
                found.append(pid)
    return found


def end_node(storm: Storm, *, whole: bool) -> bool:
    """A node's daemon, with all that it runs when the `whole` node dies; it comes back."""
    nodes = storm.nodes
    if isinstance(nodes, RayCluster):
        daemons = nodes.processes(rf"raylet/raylet .*{SECOND}")
        kill([*daemons, *(pid for daemon in daemons if whole for pid in descendants(daemon))])
        storm.moment()
        nodes.grant("late")
        return True
    name = storm.rng.choice(nodes.nodes)
    runners = runners_on(storm, name) if whole else []
    nodes.end(name)
    for runner in runners:
        kill([parent(runner), runner, *descendants(runner)])
    storm.moment()
    nodes.start(name)
    return True


def end_controller(storm: Storm) -> bool:
    """Killed, it forgets its newest jobs, and Ray's all; jobs go on unless, in Ray, everything dies."""
    nodes = storm.nodes
    nodes.end_controller()
    storm.moment()
    if isinstance(nodes, RayCluster):
        for words in (RAYS_OWN, storm.rng.choice(("", RAYS_OWN))):
            nodes.end(words)
        nodes.start_head()
        nodes.grant("late")
    else:
        nodes.mend_controller()
    return True


def kill_controller(storm: Storm) -> bool:
    """As a crash does."""
    if isinstance(storm.nodes, RayCluster):
        return end_controller(storm)
    storm.nodes.end("slurmctld")
    storm.moment()
    storm.nodes.mend_controller()
    return True


def fill_disk(storm: Storm) -> bool:
    """No file of a job's folder can grow for a while, on nodes and here; what the jobs themselves write is elsewhere."""
    ballast = storm.root / "jobs" / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    storm.moment()
    ballast.unlink()
    return True


def end_driver(storm: Storm) -> bool:
    """`resume` comes a while later."""
    assert storm.driver is not None
    storm.driver.kill()
    storm.driver.wait()
    storm.moment()
    return True


def cancel(storm: Storm) -> bool:
    """Somebody else stops a job by the scheduler's own means."""
    folders = [
        Path(word) for _, words in storm.processes() for word in words.split("\0") if re.search(r"/job\d+\.\d+$", word)
    ]
    if not folders:
        return False
    name = job_name(storm.rng.choice(folders))
    if isinstance(storm.nodes, RayCluster):
        storm.nodes.ask(f"/api/jobs/{name}/stop", "POST")
    else:
        storm.nodes.ask("scancel", f"--name={name}")
    return True


KINDS: dict[str, Callable[[Storm], bool]] = {
    "node's daemon": lambda storm: end_node(storm, whole=False),
    "node": lambda storm: end_node(storm, whole=True),
    "controller stopped": end_controller,
    "controller killed": kill_controller,
    "runner": lambda storm: kill(storm.one_of("node_runner")),
    "supervisor": lambda storm: kill(storm.one_of("supervisor_main")),
    "job": lambda storm: kill(storm.one_of(JOB)),
    "cancelled": cancel,
    "driver": end_driver,
    "disk full": fill_disk,
}
OFTEN = ("runner", "supervisor", "job", "cancelled", "driver")


def check_beats(work: Path) -> int:
    """The number of attempts that wrote. Each was over before the next began, which went on from the last saved step."""
    beats = [(who, int(step)) for who, step in (line.split() for line in (work / "beats").read_text().splitlines())]
    writers = [who for who, _ in beats]
    changes = [one for one, other in pairwise([*writers, ""]) if one != other]
    assert len(changes) == len(set(changes)), f"{work}: an attempt wrote beside another: {changes}"
    assert beats[0][1] == 0 and beats[-1][1] == STEPS - 1, f"{work}: {beats[0]} to {beats[-1]}"
    for (who, step), (other, following) in pairwise(beats):
        again = who != other and following == step  # killed after its beat, before it was saved
        assert again or following == step + 1, f"{work}: step {following} came after step {step}"
    return len(changes)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """With a small disk of its own for the folders of jobs."""
    disk = tmp_path / "jobs"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "faults", disk], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def weather(nodes: Cluster, root: Path, kills: int) -> None:
    """Blow, then look."""
    if isinstance(nodes, RayCluster):
        nodes.grant("late")
    storm, began = Storm(nodes, root, random.Random(SEED)), time.monotonic()
    try:
        storm.blow(kills)
    except BaseException as e:
        e.add_note(f"FAULT_SEED={SEED}: {dict(storm.killed)}; {(root / 'driver.log').read_text()[-1000:]}")
        e.add_note(f"{nodes.told()}\n{storm.told()}")
        raise
    finally:
        if storm.driver is not None:
            storm.driver.kill()
            storm.driver.wait()
    ends = [Exit.model_validate_json(file.read_text()) for file in root.glob("*.done")]
    assert all(end.ok for end in ends), f"FAULT_SEED={SEED}"
    wrote = sum(check_beats(work) for work in (root / "work").iterdir())
    attempts = len(list((root / "jobs").glob("job*.*")))
    until(lambda: not storm.processes(), seconds=60, every=0.2)
    print(  # noqa: T201
        f"{nodes.executor}: {storm.killed.total()} kills in {time.monotonic() - began:.0f} s, FAULT_SEED={SEED}: "
        f"{dict(storm.killed)}; {len(ends)} jobs, {attempts} attempts, {wrote} of which wrote"
    )


@pytest.mark.soak
@pytest.mark.parametrize("executor", CLUSTERS)
def test_a_hundred_kills(find_nodes: Callable[[str], Cluster], executor: str, root: Path) -> None:
    weather(find_nodes(executor), root, 100)
