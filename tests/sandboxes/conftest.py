"""A trial: run Python code in each kind of sandbox and look at what it did."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tuneloop
from tests.waiting import until
from tuneloop.core.job import Command, Exit, Limits, Sandbox
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
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
    name = kind.removeprefix(WARM)
    if name == "docker":
        request.getfixturevalue("docker_host")
    problem = PROBES[name]()
    assert problem is None, problem  # a kind that cannot run is a failure
    (root / "work").mkdir()
    if name == kind:
        yield Trial(KINDS[name](), root)
        return
    trial = start_worker(root, KINDS[name]())
    yield trial
    newest_worker = newest_attempt(root / "workers", "worker") or trial.worker
    trial.sandbox.stop(newest_worker, grace=0)
    until(lambda: trial.sandbox.poll(newest_worker).state != "running")


@pytest.fixture(params=[*sorted(KINDS), *(WARM + kind for kind in sorted(KINDS))])
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    """Every sandbox, cold and warm."""
    yield from open_trial(request.param, tmp_path, request)


@pytest.fixture(params=sorted(KINDS))
def cold(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    """Every sandbox."""
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
