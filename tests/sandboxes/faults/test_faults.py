"""Random faults of daemon, container, socket, disk, image and supervisor: no job is lost or run twice, nothing is left over.

A failure ends with its seed; `FAULT_SEED=N` tries the same again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.dockerd import OwnDaemon, own_daemon
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command, Limits
from tuneloop.sandboxes.container import FOLDER, container_name, host_image
from tuneloop.sandboxes.docker import DockerSandbox
from tuneloop.sandboxes.docker_api import RefusedError, UnreachableError
from tuneloop.sandboxes.docker_daemon import cached_daemon, find_daemon, remove_orphans
from tuneloop.sandboxes.jobs import launch, newest_attempt
from tuneloop.sandboxes.process_tree import children

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="kills a daemon and fills a disk of its own: run it as root")
SEED = int(os.environ.get("FAULT_SEED", random.SystemRandom().randrange(1 << 30)))
MOST = 20.0  # seconds until a job has got over a fault
LINES = 40
JOB = f"""
import fcntl, os, sys, time
alone = open('alone', 'w')
try: fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open('twice', 'w')
    sys.exit('another attempt of this job is alive')
for n in range({LINES}):
    print(n, flush=True)
    time.sleep(0.01)
print('whole', flush=True)
"""


@dataclass
class World:
    """A daemon of its own, and a small disk with the jobs' folders."""

    daemon: OwnDaemon
    root: Path
    rng: random.Random
    sandbox: DockerSandbox = field(default_factory=DockerSandbox)

    @property
    def jobs(self) -> Path:
        return self.root / "disk/jobs"

    def command(self, name: str) -> Command:
        work = self.root / "work" / name
        work.mkdir(parents=True, exist_ok=True)
        argv = (sys.executable, "-I", "-S", "-c", JOB)
        read = (sys.prefix, sys.base_prefix)
        return Command(argv=argv, cwd=str(work), read=read, write=(str(work),), limits=Limits(seconds=60))

    def moment(self) -> None:
        """Some instant of a job's life."""
        time.sleep(self.rng.uniform(0, 0.9))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """With a tmpfs of 8 MB, which is quickly full."""
    root = tmp_path_factory.mktemp("faults")
    disk = root / "disk"
    disk.mkdir()
    before = os.environ.get("DOCKER_HOST")
    with own_daemon() as daemon:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "faults", disk], check=True)
        os.environ["DOCKER_HOST"] = daemon.url
        try:
            yield World(daemon, root, random.Random(SEED))
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
            os.environ.pop("DOCKER_HOST")
            if before is not None:
                os.environ["DOCKER_HOST"] = before


def daemon_killed(world: World, folder: Path) -> None:
    world.daemon.kill()
    world.moment()
    world.daemon.start()


def container_killed(world: World, folder: Path) -> None:
    with suppress(RefusedError, UnreachableError):
        find_daemon().daemon.ask("POST", f"/containers/{container_name(folder)}/kill")


def socket_gone(world: World, folder: Path) -> None:
    away = world.daemon.socket.with_suffix(".away")
    world.daemon.socket.rename(away)
    world.moment()
    away.rename(world.daemon.socket)


def disk_full(world: World, folder: Path) -> None:
    ballast = world.root / "disk/ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as f:
        while True:
            f.write(bytes(1 << 12))
    world.moment()
    ballast.unlink()


def image_removed(world: World, folder: Path) -> None:
    with suppress(RefusedError, UnreachableError):
        find_daemon().daemon.ask("DELETE", f"/images/{host_image()[0]}?force=1")


def end(pid: int, folder: Path) -> None:
    """Kill a process of the job's supervisor, never one that has got its number since."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if bytes(folder) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def supervisors(folder: Path) -> list[int]:
    """The watcher and the supervisor, [] when they are gone or have not said who they are."""
    with suppress(OSError, ValueError):
        supervisor = int((folder / "lock").read_text().split()[0])
        return [int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1]), supervisor]
    return []


def supervisor_killed(world: World, folder: Path) -> None:
    for pid in supervisors(folder)[1:]:
        end(pid, folder)


def supervisor_and_watcher_killed(world: World, folder: Path) -> None:
    for pid in supervisors(folder):
        end(pid, folder)


FAULTS: tuple[Callable[[World, Path], None], ...] = (
    daemon_killed,
    container_killed,
    socket_gone,
    disk_full,
    image_removed,
    supervisor_killed,
    supervisor_and_watcher_killed,
)


def finish(world: World, name: str) -> Path:
    """Launch until it is over, as the graph does: a lost attempt is launched again, a broken world is waited for."""
    deadline = time.monotonic() + MOST
    while time.monotonic() < deadline:
        try:
            folder = launch(world.sandbox, world.jobs, name, world.command(name))
            while (status := world.sandbox.poll(folder)).state == "running" and time.monotonic() < deadline:
                time.sleep(0.02)
        except (InfrastructureError, OSError):
            time.sleep(0.1)
            continue
        if status.exit is not None and status.exit.ok:
            return folder
    last = newest_attempt(world.jobs, name)
    raise AssertionError(f"{name} did not end: {last and (last / 'log.txt').read_text()[-500:]}; FAULT_SEED={SEED}")


def suffer(world: World, number: int) -> None:
    """One job, one fault; twice the same job, so that a second launch finds the finished one."""
    fault = world.rng.choice(FAULTS)
    name = f"{fault.__name__}-{number}"
    with suppress(InfrastructureError, OSError):
        folder = launch(world.sandbox, world.jobs, name, world.command(name))
        world.moment()
        fault(world, folder)
    done = finish(world, name)
    assert finish(world, name) == done
    whole = (done / "log.txt").read_text().split() == [*map(str, range(LINES)), "whole"]
    assert whole or fault is disk_full, (name, SEED)  # a full disk costs log lines, never the job
    assert not (world.root / "work" / name / "twice").exists(), (name, SEED)


def begun(shim: int) -> list[str]:
    """Command lines of what a shim holds. When both daemons are killed Docker may lose a container that never began.

    What it leaves then is its own: a shim with nothing, or with `runc init`, which waits to become the job.
    """
    found = list[str]()
    for child in children(shim):
        with suppress(OSError):
            found.append(Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace"))
    return [line for line in found if line and not line.startswith("runc\0init")]


def left_over(world: World) -> list[str]:
    """Containers, processes, mounts and files that should have gone with their jobs.

    Not the mount of an `-init` layer: a daemon killed while it prepares a container never undoes it, and no
    request of its API does.
    """
    found = [str(one["Labels"][FOLDER]) for one in find_daemon().daemon.ask("GET", "/containers/json?all=1")]
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = line.read_bytes()
            shim = b"containerd-shim" in words and bytes(world.daemon.root) in words
            held = begun(int(line.parts[2])) if shim else []
            if held or bytes(world.jobs) in words:
                found.append(" holds ".join((words.decode(errors="replace"), *held)))
    mounts = Path("/proc/mounts").read_text().splitlines()
    layers = f"{world.daemon.root}/data/overlay2/"
    found += [line for line in mounts if layers in line and "-init/merged " not in line]
    return found + [str(p) for p in world.jobs.rglob("*") if p.name == "pipes" or p.name.endswith(".part")]


def endure(world: World, faults: int) -> None:
    cached_daemon.cache_clear()
    for number in range(faults):
        suffer(world, number)
    remove_orphans(find_daemon())
    deadline = time.monotonic() + MOST
    while (left := left_over(world)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == [], f"FAULT_SEED={SEED}"


@pytest.mark.slow
def test_forty_random_faults(world: World) -> None:
    endure(world, 40)


@pytest.mark.soak
def test_a_hundred_and_fifty_random_faults(world: World) -> None:
    endure(world, 150)
