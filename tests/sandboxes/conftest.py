"""A trial: run Python code in each kind of sandbox and look at what it did."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tuneloop
from tests import ray_cluster, slurm_cluster
from tests.waiting import until
from tuneloop.core.job import Command, Exit, Limits, Sandbox
from tuneloop.core.settings import Settings
from tuneloop.sandboxes import cluster, local, ray, slurm
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.cluster import ClusterSandbox
from tuneloop.sandboxes.docker import DockerSandbox
from tuneloop.sandboxes.docker_daemon import probe_docker
from tuneloop.sandboxes.jobs import launch, newest_attempt, wait
from tuneloop.sandboxes.landlock import LandlockSandbox, probe_landlock
from tuneloop.sandboxes.process import ProcessSandbox

KINDS: dict[str, Callable[[], Sandbox]] = {
    "process": ProcessSandbox,
    "bubblewrap": BubblewrapSandbox,
    "docker": DockerSandbox,
    "landlock": LandlockSandbox,
}
# What a kind lacks beyond its declared powers; the table in THREAT_MODEL.md names the same.
LACKS = {"landlock": {"own /proc", "own /tmp", "hidden names", "new files around closed ones", "sockets with names"}}
PROBES: dict[str, Callable[[], str | None]] = {
    "process": lambda: None,
    "bubblewrap": probe_bubblewrap,
    "docker": probe_docker,
    "landlock": probe_landlock,
}
WARM = "warm in "
ON = " on "
CLUSTERS: dict[str, ModuleType] = {"slurm": slurm_cluster, "ray": ray_cluster}
Cluster = slurm_cluster.Cluster | ray_cluster.Cluster
ON_NODES = [f"{kind}{ON}{executor}" for executor in CLUSTERS for kind in ("bubblewrap", "landlock", "process")]
# Cases that are tried on nodes every day; all others in `make soak`.
DAILY = {
    *(
        f"{case}bubblewrap{ON}{executor}]"
        for executor in CLUSTERS
        for case in (
            "test_strays_with_their_own_session_end_with_the_job[",
            "test_stop_ends_a_deaf_job_after_the_grace[",
            "test_killed_supervisor_ends_the_whole_job[",
            "test_memory_is_summed_over_two_levels_of_children[kernel-",
        )
    ),
    f"test_it_is_held_on_nodes[bubblewrap{ON}slurm]",
}
ENGINES = Path(tuneloop.__file__).parent.resolve() / "engines"
BEAT = """
import os, sys, time
def beat(name):
    while True:
        with open(name, "a") as f: f.write("x")
        time.sleep(0.02)
"""


@dataclass
class Trial:
    """One sandbox, a work folder that jobs may write, and a folder for jobs."""

    sandbox: Sandbox
    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    def command(self, code: str, **fields: Any) -> Command:
        fields = {"cwd": str(self.work), "write": (str(self.work),), **fields}
        fields["read"] = (sys.prefix, sys.base_prefix, *fields.get("read", ()))
        fields["limits"] = Limits(**{"seconds": 30, **fields.get("limits", {})})
        return Command(argv=(sys.executable, "-I", "-S", "-c", code), **fields)

    def start(self, code: str, name: str = "job", **fields: Any) -> Path:
        folder = self.root / "jobs" / name
        self.sandbox.start(folder, self.command(code, **fields))
        return folder

    def run(self, code: str, name: str = "job", **fields: Any) -> tuple[Exit, str]:
        folder = self.start(code, name, **fields)
        done = wait(self.sandbox, folder, every=0.01)
        return done, (folder / "log.txt").read_text()

    def beats(self, name: str = "beat") -> bool:
        """Whether somebody still writes to `name`."""
        before = (self.work / name).stat().st_size
        time.sleep(0.15)
        return (self.work / name).stat().st_size > before


@dataclass
class NodeTrial(Trial):
    """The same on nodes, where a job begins later, and the owner says how much memory it has: a command knows this machine."""

    sandbox: ClusterSandbox

    def start(self, code: str, name: str = "job", **fields: Any) -> Path:
        self.sandbox.memory = fields.get("limits", {}).get("memory")
        folder = super().start(code, name, **fields)
        until(lambda: self.sandbox.poll(folder).state != "running" or (folder / "log.txt").exists())
        return folder


@dataclass
class WarmTrial(Trial):
    """The same, each job forked by a worker that runs in the same kind of sandbox."""

    worker: Path

    def command(self, code: str, **fields: Any) -> Command:
        cold = super().command(code, **fields)
        script = self.root / "scripts" / f"{len(list((self.root / 'scripts').iterdir()))}.py"
        script.write_text(code)
        read = (*cold.read, str(self.root / "scripts"))
        argv = (sys.executable, str(script))
        return cold.model_copy(update={"argv": argv, "read": read, "worker": str(self.socket)})

    @property
    def socket(self) -> Path:
        return self.root / "own" / "socket"

    @property
    def pid(self) -> int:
        """The worker's process."""
        named = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(self.root).encode() in cmdline(p)]
        workers = [p for p in named if cmdline(p).split(b"\0")[1:2] == [bytes(ENGINES / "worker.py")]]
        return min(int(path.parent.name) for path in workers)


def cmdline(path: Path) -> bytes:
    """What /proc says, b"" of one that is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def start_worker(root: Path, sandbox: Sandbox, idle: float = 60, preload: str = "") -> WarmTrial:
    """A worker that has imported `preload`, and listens."""
    for name in ("own", "scripts", "preload"):
        (root / name).mkdir(exist_ok=True)
    (root / "preload/preload.py").write_text("import sys\nsys.flavour = 'warm'\n" + preload)
    trial = WarmTrial(sandbox, root, root / "workers/worker.1")
    trial.socket.unlink(missing_ok=True)
    argv = (sys.executable, str(ENGINES / "worker.py"), str(root / "preload"), str(idle))
    read = (sys.prefix, sys.base_prefix, str(ENGINES))
    write = (str(root),)
    trial.worker = launch(
        sandbox,
        root / "workers",
        "worker",
        Command(argv=argv, cwd=str(root / "own"), read=read, write=write, forks=True),
        retry=True,
    )
    until(lambda: trial.socket.exists() or sandbox.poll(trial.worker).state != "running")
    return trial


def supervisor_pid(folder: Path) -> int:
    """Pid of the job's supervisor, once it said it."""
    return int(until((folder / "lock").read_text).split()[0])


def open_trial(kind: str, root: Path, request: pytest.FixtureRequest) -> Iterator[Trial]:
    """A trial in a sandbox; the worker of a warm one ends with it."""
    name, _, executor = kind.removeprefix(WARM).partition(ON)
    if name == "docker":
        request.getfixturevalue("docker_host")
    problem = PROBES[name]()
    assert problem is None, problem  # a kind that cannot run is a failure
    (root / "work").mkdir()
    if executor:
        yield NodeTrial(request.getfixturevalue("on_nodes")(executor, KINDS[name]()), root)
        return
    if name == kind:
        yield Trial(KINDS[name](), root)
        return
    trial = start_worker(root, KINDS[name]())
    yield trial
    newest_worker = newest_attempt(root / "workers", "worker") or trial.worker
    trial.sandbox.stop(newest_worker, grace=0)
    until(lambda: trial.sandbox.poll(newest_worker).state != "running")


def kind_on_nodes(item: pytest.Item) -> str:
    """The kind of sandbox on nodes that a test is for, "" for another test."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((one for one in given if isinstance(one, str) and one in (*ON_NODES, *CLUSTERS)), "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs on nodes comes last, so that one cluster lives at a time; a share of it daily."""
    for item in items:
        if kind_on_nodes(item) in ON_NODES:
            item.add_marker(pytest.mark.slow if item.name in DAILY else pytest.mark.soak)
    items.sort(key=lambda item: [*CLUSTERS].index(name) + 1 if (name := kind_on_nodes(item).rpartition(ON)[2]) else 0)


@contextmanager
def one_cluster(around: Callable[[Any], Any] = lambda made: made) -> Iterator[Callable[[str], Cluster]]:
    """Finds the cluster of an executor; the other one ends. Sockets need a short path."""
    with ExitStack() as stack:
        there: list[Cluster] = []

        def found(executor: str) -> Cluster:
            if not there or there[0].executor != executor:
                there.clear()
                stack.close()
                if absent := CLUSTERS[executor].missing():
                    pytest.skip(f"not there: {absent}")
                place = stack.enter_context(tempfile.TemporaryDirectory(prefix="c", dir="/tmp"))
                there.append(stack.enter_context(around(CLUSTERS[executor].cluster(Path(place) / "c"))))
            return there[0]

        yield found


@pytest.fixture(scope="session")
def find_nodes() -> Iterator[Callable[[str], Cluster]]:
    """The cluster of an executor."""
    with one_cluster() as found:
        yield found


@pytest.fixture
def on_nodes(
    find_nodes: Callable[[str], Cluster], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Sandbox, str], ClusterSandbox]:
    """A sandbox on nodes as this process sees it, with these options or resources."""
    monkeypatch.setattr(cluster, "OFTEN", 0.5)
    monkeypatch.setattr(cluster, "SUBMIT_SECONDS", 10.0)
    path, rest = cluster.BOOT.split("; from", 1)
    as_here = f"l.find_user = lambda: None; b.BOOT = {local.BOOT!r}"  # jobs are of this user, and watched as here
    boot = f"{path}; import tuneloop.sandboxes.landlock as l, tuneloop.sandboxes.local as b; {as_here}; from{rest}"
    monkeypatch.setattr(cluster, "BOOT", boot)
    monkeypatch.setattr(slurm, "CONTROLLER", slurm.Controller())
    ray.ray_jobs.cache_clear()

    def made(executor: str, inner: Sandbox, options: str = "") -> ClusterSandbox:
        nodes = find_nodes(executor)
        for name, value in nodes.env.items():
            monkeypatch.setenv(name, value)
        settings = Settings(TUNELOOP_SLURM_OPTIONS=options, TUNELOOP_RAY_RESOURCES=options)
        opened = open_executor(nodes.executor, inner, settings)
        assert isinstance(opened, ClusterSandbox)
        return opened

    return made


@pytest.fixture(params=[*sorted(KINDS), *(WARM + kind for kind in sorted(KINDS)), *ON_NODES])
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    """Every sandbox, cold and warm, and on nodes."""
    yield from open_trial(request.param, tmp_path, request)


@pytest.fixture(params=[*sorted(KINDS), *ON_NODES])
def cold(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    """Every sandbox, here and on nodes."""
    yield from open_trial(request.param, tmp_path, request)


@pytest.fixture(params=sorted(KINDS))
def warm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WarmTrial]:
    """A worker in every sandbox."""
    for trial in open_trial(WARM + request.param, tmp_path, request):
        assert isinstance(trial, WarmTrial)
        yield trial


@pytest.fixture
def needs(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Skip where the sandbox does not claim the power."""
    trial = request.getfixturevalue("trial" if "trial" in request.fixturenames else "cold")

    def ask(power: str) -> None:
        if power not in trial.sandbox.powers:
            pytest.skip(f"{trial.sandbox.kind} does not claim {power}")

    return ask


def lacks(trial: Trial, row: str) -> bool:
    """Whether this kind is known not to have it."""
    return row in LACKS.get(trial.sandbox.kind, set())


@pytest.fixture
def mortal(trial: Trial) -> None:
    """Leave out containers: they outlive their supervisor, which is tried in test_docker.py."""
    if trial.sandbox.kind == "docker" and not isinstance(trial, WarmTrial):
        pytest.skip("a container outlives its supervisor")
