"""The supervisor's side of a job in a container. Standard library only, as all of the supervisor.

The daemon creates, starts and removes the container. Everything else goes past it: output and the end of the job come
through named pipes in the job's folder (`container_init.py` holds the other ends), processes and memory are seen in /proc and in
the control group. So a job with a live supervisor needs no daemon, and one whose supervisor was killed is taken up again, with
nothing of its output lost.
"""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH102, PTH108, PTH110, PTH116, PTH123

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import time
from contextlib import suppress

from tuneloop.sandboxes.docker_api import DockerApi, RefusedError, UnreachableError
from tuneloop.sandboxes.process_tree import descendants, send_signal
from tuneloop.sandboxes.spawn import JobLostError, NotStartedError
from tuneloop.sandboxes.supervisor import Supervisor

TYPE_CHECKING = False  # typing would be a third of a supervisor's start
if TYPE_CHECKING:
    from typing import Any

    from tuneloop.sandboxes.spawn import Plan

PIPES = "pipes"  # the folder in the job's folder that the container sees
PATIENCE = 60.0  # seconds that a daemon may be away when a container has to be started
LAST = 30.0  # seconds that a container gets to see that it is given up
END = 1 << 16  # bytes: a report is far shorter
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class ContainerJob:
    """A job in a container of its own; `code` is None while it runs."""

    wrappers = 0

    def __init__(self, folder: str, plan: Plan) -> None:
        self.plan, self.place = plan, f"{folder}/{PIPES}"
        self.given: dict[str, Any] = plan.container or {}
        self.daemon = DockerApi(self.given["socket"], self.given["api"])
        self.name: str = self.given["name"]
        self.code: int | None = None
        self.refusal, self.told = "", b""
        self.most, self.spent, self.starved = 0, 0.0, False
        if self.given["take_up"]:
            self.log, self.report = self.open_pipes()
            self.pid = init_pid(self.place) or self.find()
        else:
            create_pipes(
                self.place,
                {"argv": plan.argv, "cwd": plan.cwd, "env": plan.env, "filter": self.given["filter"]},
                self.given["user"],
            )
            self.log, self.report = self.open_pipes()
            self.pid = self.start_container(create=True)
        try:
            self.handle = os.pidfd_open(self.pid)
        except ProcessLookupError as e:
            raise JobLostError(f"container {self.name} ended before anybody could watch it") from e
        self.birth, self.group = start_ticks(self.pid), memory_events_file(self.pid)

    def open_pipes(self) -> tuple[int, int]:
        """Our ends of `log` and `report`. Raises Lost when there is nothing to take up."""
        try:
            return os.open(f"{self.place}/log", READ), os.open(f"{self.place}/report", READ)
        except FileNotFoundError as e:
            raise JobLostError("the job's pipes are gone") from e

    def find(self) -> int:
        """The first process of a container whose supervisor died before it wrote that down. Raises Lost."""
        state = self.with_retries(lambda: self.daemon.state(self.name))
        if state is None or state["Status"] not in ("created", "running"):
            raise JobLostError(f"container {self.name} is gone")
        return self.start_container(create=False)

    def start_container(self, create: bool) -> int:
        """Start the container; its first process as we see it. Raises NotStarted, Lost."""
        try:
            if create:
                self.with_retries(lambda: self.daemon.create(self.name, self.given["config"]))
            self.with_retries(lambda: self.daemon.start(self.name))
            state = self.with_retries(lambda: self.daemon.state(self.name))
        except (RefusedError, UnreachableError) as e:
            with suppress(RefusedError, UnreachableError):
                self.daemon.remove(self.name)
            raise NotStartedError(f"container {self.name} did not start: {e}\n") from e
        if not state or not state["Pid"]:
            raise JobLostError(f"container {self.name} ended before anybody could watch it")
        pid = int(state["Pid"])
        with suppress(OSError), open(f"{self.place}/pid", "w") as f:
            f.write(f"{pid} {start_ticks(pid)}")
        return pid

    def with_retries(self, ask: Any) -> Any:
        """The answer, also of a daemon that is just being restarted. Raises Refused, Unreachable."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return ask()
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def reap(self) -> bool:
        """False when nothing of the job is left. Raises Lost when its end will never be told."""
        dead = bool(select.select([self.handle], [], [], 0)[0])
        self.starved = self.starved or was_oom_killed(self.group)
        self.read_report(dead)
        if dead and self.code is None:
            self.parse_report()
        if dead and self.code is None:
            if not self.starved:
                raise JobLostError(f"container {self.name} was killed, and the job with it")
            self.code = -signal.SIGKILL
        return not dead

    def read_report(self, dead: bool) -> None:
        """Take in what is told, and keep its end: a job can find the pipe, too, and talk faster than we listen."""
        with suppress(BlockingIOError):
            while data := os.read(self.report, END):
                self.told = (self.told + data)[-END:]
                if not dead:
                    return

    def parse_report(self) -> None:
        """The last line, once all are dead: the first process wrote it when the job could write no more."""
        with suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
            end = json.loads(self.told.strip().rpartition(b"\n")[2])
            self.most, self.spent, self.refusal = int(end["peak"]), int(end["cpu"] * 1000) / 1000, str(end["refusal"])
            self.code = int(end["code"])

    def processes(self) -> list[int]:
        """Every process of the job; none of a stranger who has got the number since."""
        found = descendants(self.pid)
        return found if start_ticks(self.pid) == self.birth != 0 else []

    def ask(self) -> None:
        """SIGTERM to each."""
        send_signal(self.processes(), signal.SIGTERM)

    def peak(self) -> int:
        """Bytes that the largest process had; where the wall was hit, what is inside it."""
        return max(self.most, self.plan.memory or 0) if self.starved else self.most

    def cpu(self) -> float:
        """CPU seconds of every process of the job."""
        return self.spent

    def verdict(self) -> int:
        """The exit status."""
        return self.code or 0

    def remove(self) -> None:
        """Nothing of the container is left; a daemon that is away does it when it comes back."""
        with suppress(RefusedError, UnreachableError):
            self.daemon.remove(self.name)


class ContainerSupervisor(Supervisor):
    """A supervisor whose jobs start in containers, unless a warm engine forks them."""

    def run(self) -> None:
        """As every supervisor; what was lost leaves nothing to take up."""
        try:
            super().run()
        except JobLostError:
            self.clear()
            raise

    def start_cold(self) -> ContainerJob:
        """The container, whose pipe takes the place of ours. Raises NotStarted, Lost."""
        self.contained = ContainerJob(self.folder, self.plan)
        os.close(self.pipe)
        self.pipe = self.contained.log
        self.started = time.monotonic()
        if self.contained.given["take_up"]:
            self.started -= max(0.0, time.time() - os.stat(f"{self.folder}/command.json").st_mtime)
        return self.contained

    def read_output(self, seconds: float) -> None:
        """As every supervisor; the report of the end, too, is a reason to look at once."""
        job = self.job if hasattr(self, "job") else None
        if isinstance(job, ContainerJob) and self.open:
            ready = select.select([self.pipe, job.report], [], [], seconds)[0]
            if self.pipe not in ready:
                return
        super().read_output(seconds)

    def exceeds_memory_or_processes(self) -> str:
        """The kernel may have been quicker than we."""
        job = self.job
        return "memory" if isinstance(job, ContainerJob) and job.starved else super().exceeds_memory_or_processes()

    def verdict(self, reason: str) -> tuple[int, str]:
        """What only the container knows: the kernel ended it for its memory, or it never began."""
        job = self.job
        if isinstance(job, ContainerJob) and job.refusal:
            self.log.write(job.refusal.encode(errors="replace"))
            return 127, "failed_to_start"
        if isinstance(job, ContainerJob) and job.starved and reason == "finished":
            return -signal.SIGKILL, "memory"
        return super().verdict(reason)

    def write_result(self, code: int, reason: str, peak: int, cpu: float) -> None:
        """`exit.json` before the container goes: others remove a container, nobody tells a lost end.

        The pipes were read to their end; a folder that is over has none.
        """
        release_container(f"{self.folder}/{PIPES}")
        super().write_result(code, reason, peak, cpu)
        self.clear()

    def clear(self) -> None:
        """No pipes, no container."""
        release_container(f"{self.folder}/{PIPES}")
        if hasattr(self, "contained"):
            self.contained.remove()


def create_pipes(place: str, job: dict[str, Any], user: tuple[int, int]) -> None:
    """The folder that the container sees, read-only, with what `container_init.py` needs. Raises NotStarted."""
    try:
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place, 0o755)
        for name in ("log", "report"):
            os.mkfifo(f"{place}/{name}", 0o600)
        with open(os.open(f"{place}/job.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w") as f:
            json.dump(job, f)
        if not os.geteuid():  # a rootless daemon's root is who starts tuneloop
            for name in ("log", "report", "job.json"):
                os.chown(f"{place}/{name}", *user)
    except OSError as e:
        raise NotStartedError(f"{place}: {e}\n") from e


def release_container(place: str) -> None:
    """Take `log` away, wait until the container has ended because of it, and remove the pipes.

    Its daemon may have forgotten it. One that stands still and cannot see the sign is waited for half a minute.
    """
    with suppress(OSError):
        os.unlink(f"{place}/log")
    with suppress(OSError):
        report = os.open(f"{place}/report", READ)
        deadline = time.monotonic() + LAST
        while not is_pipe_free(report) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.close(report)
    shutil.rmtree(place, ignore_errors=True)


def is_pipe_free(pipe: int) -> bool:
    """Whether no container holds it."""
    with suppress(BlockingIOError):
        fcntl.flock(pipe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def init_pid(place: str) -> int:
    """The first process of the container, as a supervisor before us wrote it down; 0 when it wrote nothing. Raises Lost."""
    try:
        with open(f"{place}/pid") as f:
            pid, birth = map(int, f.read().split())
    except (OSError, ValueError):
        return 0
    if start_ticks(pid) != birth:
        raise JobLostError("the container ended while nobody watched it")
    return pid


def start_ticks(pid: int) -> int:
    """When it started, in ticks since boot; 0 when it is gone. With the pid, a name that is never used twice."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return int(f.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def memory_events_file(pid: int) -> str:
    """The file in the process's control group that counts what the kernel killed for its memory, "" where none is."""
    try:
        with open(f"/proc/{pid}/cgroup") as f:
            lines = [line.strip().split(":", 2) for line in f]
    except OSError:
        return ""
    for _, controllers, path in lines:
        root = "/sys/fs/cgroup" if not controllers else f"/sys/fs/cgroup/{controllers}"
        name = "memory.events" if not controllers else "memory.oom_control"
        if controllers in ("", "memory") and os.path.exists(f"{root}{path}/{name}"):
            return f"{root}{path}/{name}"
    return ""


def was_oom_killed(group: str) -> bool:
    """Whether the kernel has ended a process of the container because it hit its limit."""
    try:
        with open(group) as f:
            return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in f)
    except OSError:
        return False
