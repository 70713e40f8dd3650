"""What sandboxes of this machine share: a detached supervisor per job, polled and stopped by the job's folder."""

from __future__ import annotations

import base64
import marshal
import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tuneloop
from tuneloop.core.errors import DamagedFileError, InfrastructureError
from tuneloop.core.file_systems import network_kind
from tuneloop.core.files import read_bytes, read_model, write_atomic
from tuneloop.core.job import CLAIM, Command, Exit, JobStatus, Power
from tuneloop.core.lease import find_lease
from tuneloop.core.locks import is_locked, lock_file, try_lock
from tuneloop.core.run_lease import FOLDER, LARGEST, LOST, machine_of, sign_of
from tuneloop.sandboxes import seccomp

ROOT = Path(tuneloop.__file__).parent.parent
BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from tuneloop.sandboxes.supervisor_main import main;"
    " main(sys.argv[2], int(sys.argv[3]))"
)
START_SECONDS = 60.0
FENCE = LOST - 10.0  # seconds of silence after which a supervisor looks whether another machine began its job anew
GPU_QUERY = ("--query-gpu=index,memory.total", "--format=csv,noheader,nounits")
GPU_SECONDS = 30.0


@dataclass(frozen=True)
class WrappedCommand:
    """A command inside its sandbox; `wrappers` counts the sandbox's own processes above the job.

    `handles` are descriptors that it names; they are closed here once it is started. `container` is the plan of one
    that a daemon starts. `scoped`: signals and abstract sockets stay among the job's processes, where Landlock can do it.
    `confined`: what the job puts on itself (`confinement.py`). `fork_filter`: of a job that a worker forks, in place of
    the usual filter of system calls; b"": a job that no worker may fork.
    """

    argv: tuple[str, ...]
    wrappers: int = 0
    refusal: str = ""
    handles: tuple[int, ...] = ()
    container: dict[str, Any] | None = None
    scoped: bool = False
    confined: dict[str, Any] | None = None
    fork_filter: bytes | None = None


class LocalSandbox(ABC):
    """Starts supervisors on this machine; subclasses say how a command is wrapped."""

    kind: str
    powers: frozenset[Power]
    stop_seconds = LOST + 30.0  # one of another machine counts as alive for LOST seconds

    @property
    def note(self) -> str:
        """What a run should know of this kind, in one line."""
        return ""

    def check_reachable(self, folder: Path) -> None:  # noqa: B027 - only jobs of another user may fail to
        """Jobs of the same user get wherever we do."""

    @abstractmethod
    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:
        """The command as it is executed; `lock` is a descriptor that has to live as long as the job."""

    def start(self, folder: Path, command: Command) -> None:
        """Start detached, unless it runs or is over. Raises InfrastructureError when a path is missing or nothing can start."""
        self.start_as(folder, command, command)

    def start_as(self, folder: Path, asked: Command, command: Command, runner: int = 0) -> None:
        """The same where a scheduler granted what was `asked`; the job ends when the process `runner` does."""
        check_paths(command)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with try_lock(folder / "lock") as lock:
                if lock is None or (folder / "exit.json").exists():
                    return
                os.ftruncate(lock, 0)  # it names the supervisor of an attempt that was lost
                for leftover in () if runner else ("stop", "log.txt"):  # one that is claimed first has none
                    (folder / leftover).unlink(missing_ok=True)
                write_atomic(folder / "command.json", asked.model_dump_json(indent=1))
                supervise(folder, command, self.wrap(folder, command, lock), lock, runner)
        except (OSError, subprocess.SubprocessError) as e:
            raise InfrastructureError(f"{folder}: the job cannot be started: {e}") from e

    def poll(self, folder: Path, *, elsewhere: bool = True) -> JobStatus:
        """From the folder alone; never blocks. `elsewhere`: also believe signs of life of another machine's supervisor."""
        if not (folder / "command.json").exists():
            return JobStatus(state="absent")
        lock = folder / "lock"
        # Before exit.json, which is written while the lock is held.
        alive = is_locked(lock) or (elsewhere and lives_elsewhere(lock))
        if (folder / "exit.json").exists():
            return JobStatus(state="over", exit=read_model(folder / "exit.json", Exit))
        return JobStatus(state="running" if alive else "lost")

    def stop(self, folder: Path, grace: float = 5.0) -> None:
        """Ask the supervisor; without one, end whatever still holds the lock. Returns at once."""
        if self.poll(folder).state != "running":
            return
        write_atomic(folder / "stop", str(grace))
        if not has_supervisor(folder):
            for pid in processes_holding(lock_file(folder / "lock")):
                os.kill(pid, signal.SIGKILL)


# What was seen of a job, and since when it has not changed; whoever polls may be made anew each time.
SIGNS: dict[Path, tuple[float, float]] = {}


def shows_life(what: Path, seen: float, lost: float) -> bool:
    """Whether `seen` changed in the last `lost` seconds, by this machine's clock alone; seen for the first time, it did."""
    before, since = SIGNS.get(what, (None, 0.0))
    now = time.monotonic()
    if seen != before:
        SIGNS[what] = (seen, now)
        return True
    return now - since < lost


def lives_elsewhere(lock: Path) -> bool:
    """Whether a supervisor on another machine, whose lock may not be seen here, gives signs of life.

    On a local file system another machine is this one before it was booted anew.
    """
    return is_foreign(lock) and shows_life(lock, sign_of(lock) or 0.0, LOST)


def is_foreign(lock: Path) -> bool:
    """Whether a supervisor on another machine has signed."""
    try:
        return named_in(lock)[1] not in ("", machine_of(lock.parent)) and bool(network_kind(lock.parent))
    except (FileNotFoundError, DamagedFileError):
        return False


def named_in(lock: Path) -> tuple[str, str]:
    """The supervisor's number and its machine, "" and "" before it has signed. Raises as `read_bytes`."""
    pid, _, machine = read_bytes(lock_file(lock), LARGEST, follow=False).decode(errors="replace").strip().partition(" ")
    return pid, machine


def claim_attempt(folder: Path, who: str) -> bool:
    """Whether the attempt is ours now: the first one to ask has it for ever."""
    try:
        handle = os.open(folder / CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w") as f:
        f.write(who)
        f.flush()
        os.fsync(handle)
    return True


def check_paths(command: Command) -> None:
    """What shall be visible has to exist, and the job has to start where it may write."""
    for path in (*command.read, *command.write, command.cwd):
        if not os.path.isabs(path) or not os.path.exists(path):  # noqa: PTH110, PTH117
            raise InfrastructureError(f"a job needs {path}, which is no existing absolute path")
    if not any(Path(command.cwd).is_relative_to(path) for path in command.write):
        raise InfrastructureError(
            f"a job's cwd {command.cwd} lies in none of its writable folders {list(command.write)}"
        )


def environment(command: Command) -> dict[str, str]:
    """A job's whole environment: these defaults and what the command lists."""
    beside = str(Path(command.argv[0]).parent) + ":" if command.argv[0].startswith("/") else ""
    path = f"{beside}/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": command.cwd, "LANG": "C.UTF-8", "USER": "job", "LOGNAME": "job", **command.env}


def warm_request(folder: Path, command: Command, fork_filter: bytes | None) -> dict[str, Any] | None:
    """What a worker is asked for; None where it must not be: code of a model, a network, sight of the job's own folder."""
    listed = [os.path.realpath(path) for path in (*command.read, *command.write)]
    if not command.worker or command.generated or command.network or fork_filter == b"":
        return None
    if any(folder.resolve().is_relative_to(path) for path in listed):
        return None
    calls = fork_filter or seccomp.build_filter(shared=True, inet=may_use_several_gpus(command.env))
    filtered = base64.b64encode(calls).decode()
    return {"socket": command.worker, "argv": command.argv, "read": command.read, "filter": filtered}


def may_use_several_gpus(env: dict[str, str]) -> bool:
    """Whether a job may put a process on each of several GPUs; these talk over the loopback interface."""
    named = env.get("CUDA_VISIBLE_DEVICES")
    several = len(list(Path("/dev").glob("nvidia[0-9]*"))) > 1 if named is None else "," in named
    return several or "FORCE_TORCHRUN" in env


def supervise(folder: Path, command: Command, wrapped: WrappedCommand, lock: int, runner: int = 0) -> None:
    """Start the supervisor, which inherits the lock. Raises InfrastructureError when it does not come up."""
    limits = command.limits.model_dump()
    plan: dict[str, Any] = {**limits, "write": command.write, "cwd": command.cwd, "env": environment(command)}
    plan |= {"argv": wrapped.argv, "wrappers": wrapped.wrappers, "refusal": wrapped.refusal}
    plan |= {
        "warm": warm_request(folder, command, wrapped.fork_filter),
        "container": wrapped.container,
        "lock": lock,
        "scoped": wrapped.scoped,
        "confined": wrapped.confined,
        "lease": str(find_lease(folder) or ""),
        "machine": machine_of(folder),
        "run_lease": next((str(place / FOLDER) for place in folder.parents if (place / FOLDER).is_dir()), ""),
        "fence": FENCE,
        "runner": runner,
    }
    argv = [sys.executable, "-I", "-S", "-c", BOOT, str(ROOT), str(folder), str(lock)]
    with (folder / "log.txt").open("ab") as log, closing(wrapped.handles):
        started = subprocess.run(
            argv,
            input=marshal.dumps(plan),
            stdout=log,
            stderr=log,
            env={},
            cwd="/",
            pass_fds=(lock, *wrapped.handles),
            start_new_session=True,
            timeout=START_SECONDS,
            check=False,
        )
    if started.returncode != 0:
        raise InfrastructureError(f"{folder.name}: the job's supervisor did not start: {last_log_line(folder)}")


@contextmanager
def closing(handles: tuple[int, ...]) -> Iterator[None]:
    """Close these descriptors at the end."""
    try:
        yield
    finally:
        for handle in handles:
            os.close(handle)


def last_log_line(folder: Path) -> str:
    """The last line of the log."""
    return last_words(folder / "log.txt") or "no reason given"


def last_words(file: Path) -> str:
    """The last line of a job's output, cut; "" where there is none."""
    text = file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else ""
    return text.splitlines()[-1][:300] if text else ""


def has_supervisor(folder: Path) -> bool:
    """Whether the process named in the lock file is this job's supervisor; one of another machine or not yet named reads `stop`."""
    pid, machine = named_in(folder / "lock")
    if not pid or machine not in ("", machine_of(folder)):
        return True
    try:
        words = Path(f"/proc/{int(pid)}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return False
    return str(folder).encode() in words


def processes_holding(path: Path) -> list[int]:
    """Processes that have `path` open."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if entry.readlink() == path and int(entry.parts[2]) != os.getpid():
                found.append(int(entry.parts[2]))
        except OSError:
            continue
    return found


def gpu_memory() -> dict[int, int]:
    """Bytes of memory of each NVIDIA GPU, as `nvidia-smi` reports them; {} without that program.

    Raises:
        InfrastructureError: `nvidia-smi` fails.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    try:
        done = subprocess.run([program, *GPU_QUERY], capture_output=True, text=True, timeout=GPU_SECONDS, check=True)
        rows = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
        return {int(index): int(mib) << 20 for index, mib in rows}
    except (OSError, subprocess.SubprocessError, ValueError) as e:
        raise InfrastructureError(
            f"nvidia-smi does not answer ({type(e).__name__}): see whether it works by itself"
        ) from e
