"""On a node: runs one job in its sandbox, gives signs of life, and ends it when it can give none.

Started by a scheduler as `main(FOLDER, KIND)`, with the folder on a file system that the orchestrator shares; for a job on
several nodes the others run `follow` (`node_group.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_model, write_atomic
from tuneloop.core.job import ALIVE, Command, Exit
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.local import LocalSandbox, claim_attempt, has_supervisor
from tuneloop.sandboxes.node_group import NODE, Group, Joined, as_node, nodes_granted, tell_leader
from tuneloop.sandboxes.process_tree import adopt_orphans, descendants, send_signal

BEAT, FENCE = 5.0, 30.0  # seconds between two signs; after so many without one the job is ended
LOOK = 0.2
# Whether a job may see a GPU is for the scheduler to say.
GIVEN = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class Watchdog:
    """Gives signs of life, and ends everything when none came through for too long: a file system that hangs hangs us too.

    `sign` gives one, or looks for one of somebody else and returns False where there is no new one; it may raise OSError.
    """

    def __init__(self, sign: Callable[[], object]) -> None:
        self.sign = sign
        self.last = time.monotonic()
        threading.Thread(target=self.guard, daemon=True).start()

    def beat(self) -> None:
        """Give a sign when it is time. A success counts from when it was begun."""
        began = time.monotonic()
        if began - self.last >= BEAT:
            with contextlib.suppress(OSError):
                if self.sign() is not False:
                    self.last = began

    def guard(self) -> None:
        """Touches no file."""
        while time.monotonic() - self.last < FENCE:
            time.sleep(1)
        end_all()
        os._exit(1)


def end_all() -> None:
    """SIGKILL everything below this process until nothing is left: supervisors are ours, for orphans come to us."""
    while below := descendants(os.getpid()):
        send_signal(below, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def granted_bytes() -> int:
    """Memory that the scheduler grants, else nine tenths of the node's."""
    for name, times in (
        ("SLURM_MEM_PER_NODE", 1),
        ("SLURM_MEM_PER_CPU", int(os.environ.get("SLURM_CPUS_ON_NODE", "1"))),
    ):
        if os.environ.get(name, "").isdecimal() and int(os.environ[name]):
            return times * int(os.environ[name]) << 20
    return int(0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def as_scheduled(command: Command, memory: int | None) -> Command:
    """With the devices that the scheduler gave, and no more memory than it granted or the user allows."""
    devices = {name: os.environ[name] for name in GIVEN if name in os.environ and name not in command.env}
    limits = command.limits.model_copy(update={"memory": min(granted_bytes(), memory or granted_bytes())})
    return command.model_copy(update={"env": {**command.env, **devices}, "limits": limits})


def device_count(command: Command) -> int:
    """GPUs that the job may use."""
    named = command.env.get(GIVEN[0], os.environ.get(GIVEN[0], ""))
    return len([name for name in named.split(",") if name.strip()])


def claimant(command: Command) -> str:
    """Whoever claims an attempt here: node, number of the scheduler's job, devices on all its nodes."""
    number = os.environ.get("SLURM_JOB_ID", "-")  # Ray tells none
    devices = device_count(command) * (nodes_granted() if command.spans else 1)
    return f"{os.uname().nodename} {number} {devices}"


def main(place: str, kind: str, memory: str = "") -> None:
    """Run the job to its end, with at most `memory` bytes; exit status 0 when that is written down."""
    folder = Path(place)
    command = read_model(folder / "command.json", Command)
    if not claim_attempt(folder, claimant(command)):
        return
    sign = folder / ALIVE
    sign.touch()
    watchdog = Watchdog(lambda: os.utime(sign))
    run_job(folder, command, kind, memory, lambda _: watchdog.beat())
    sign.unlink(missing_ok=True)
    sys.exit(0 if (folder / "exit.json").exists() else 1)


def run_job(folder: Path, command: Command, kind: str, memory: str, tick: Callable[[LocalSandbox], None]) -> None:
    """Run a job that is claimed to its end, calling `tick` all the while; nothing of it lives then."""
    adopt_orphans()
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    group = Group(folder, command)
    try:
        sandbox, granted = node_sandbox(kind), as_scheduled(command, int(memory or 0))
        if group.count > 1:
            group.start(kind, memory)
            granted = as_node(granted, kind, folder, 0, group.count, group.address(lambda: tick(sandbox)))
        sandbox.start_as(folder, command, granted, os.getpid())
        while is_running(sandbox, folder):
            tick(sandbox)
            if asked or group.is_broken():
                asked.clear()
                sandbox.stop(folder, command.limits.grace)
            time.sleep(LOOK)
        group.wait(lambda: tick(sandbox))
    except (InvalidRequestError, InfrastructureError) as e:
        write_failed_start(folder, e)
    finally:
        group.end()
        end_all()  # a supervisor that was killed leaves its job to us


def write_failed_start(folder: Path, error: Exception) -> None:
    """The end of a job that did not begin, with the reason in its log."""
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"{os.uname().nodename}: {error}\n")
    end = Exit(code=127, reason="failed_to_start", seconds=0.0)
    write_atomic(folder / "exit.json", end.model_dump_json(), keep=True)


def signs_of(sign: Path) -> Callable[[], bool]:
    """Looks whether the leader has given a new sign."""
    seen = [0]

    def look() -> bool:
        last, seen[0] = seen[0], sign.stat().st_mtime_ns
        return seen[0] != last

    return look


def follow(place: str, kind: str, memory: str = "") -> None:
    """Run the job on one of the other nodes, until it has ended there or on the first; exit status 1 where it ended badly."""
    folder, rank = Path(place), int(os.environ["SLURM_PROCID"]) + 1
    own, command = folder / f"{NODE}{rank}", read_model(folder / "command.json", Command)
    adopt_orphans()
    watchdog = Watchdog(signs_of(folder / ALIVE))
    try:
        leader = os.environ["SLURM_LAUNCH_NODE_IPADDR"]
        sandbox, granted = node_sandbox(kind), as_scheduled(command, int(memory or 0))
        granted = as_node(granted, kind, folder, rank, nodes_granted(), leader)
        sandbox.start_as(own, command, granted, os.getpid())
        tell_leader(folder, rank, Joined(leader=leader))
        while is_running(sandbox, own) and not (folder / "exit.json").exists():
            watchdog.beat()
            time.sleep(LOOK)
    except (InvalidRequestError, InfrastructureError) as e:
        tell_leader(folder, rank, Joined(error=f"{os.uname().nodename}: {e}"))
    finally:
        end_all()
    end = own / "exit.json"
    sys.exit(0 if end.exists() and read_model(end, Exit).ok else 1)


def node_sandbox(kind: str) -> LocalSandbox:
    """The sandbox of this node. Raises InvalidRequestError where it does not work here."""
    sandbox = open_sandbox(kind)  # type: ignore[arg-type]
    if not isinstance(sandbox, LocalSandbox):
        raise InvalidRequestError(f"sandbox {kind} does not run on nodes")
    return sandbox


def is_running(sandbox: LocalSandbox, folder: Path) -> bool:
    """Whether it is, and somebody guards it; while the file system does not say, it is."""
    try:
        return sandbox.poll(folder).state == "running" and has_supervisor(folder)
    except OSError:
        return True
