"""Turns a forked child into the job. Standard library only, as all of the supervisor."""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH123

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enums, whose import takes longer
import os
import resource
from ctypes import c_size_t, c_uint64

from tuneloop.sandboxes.process_tree import descendants, libc, send_signal

TYPE_CHECKING = False  # typing would be a third of a supervisor's start
if TYPE_CHECKING:
    from typing import Protocol

    from tuneloop.sandboxes.cgroups import CgroupLimits
    from tuneloop.sandboxes.confinement import Confinement

    class SupervisedJob(Protocol):
        """What a supervisor needs of a job, however it was started; `code` is None while it runs."""

        wrappers: int
        code: int | None

        def reap(self) -> bool:
            """Take the exits of ended processes; False when nothing of the job is left."""
            ...

        def processes(self) -> list[int]:
            """Every process of the job."""
            ...

        def ask(self) -> None:
            """SIGTERM to the job."""
            ...

        def peak(self) -> int:
            """Bytes that the largest process had."""
            ...

        def cpu(self) -> float:
            """CPU seconds of every process."""
            ...

        def verdict(self) -> int:
            """The exit status."""
            ...


PDEATHSIG, NO_NEW_PRIVS = 1, 38
CREATE_RULESET, RESTRICT_SELF = 444, 446  # Landlock's numbers, the same on every architecture
SIGNALS_AND_SOCKETS = 0b11
# A new keyring: the one of our session may hold the user's keys.
KEYCTL, JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine), 1


class NotStartedError(Exception):
    """The job's program could not be executed."""


class WorkerUnavailableError(Exception):
    """No worker forks this job; it is started cold."""


class JobLostError(Exception):
    """The worker was killed, and the job with it."""


class Plan:
    """What to run and what to allow; `wrappers` counts the sandbox's own processes above the job.

    `warm`: the worker's socket, and argv and readable paths without a sandbox around; None: start cold.
    `container`: what `container_supervisor.py` needs to start or take up a container; None: no daemon.
    `lease`: of this machine on the home; `run_lease`: where the run's are, `fence`: seconds after which they are looked at.
    `runner`: the process that must live for the job to go on; 0: none.
    `confined`: what `confinement.py` puts on the job; None: others shut it in.
    """

    def __init__(self, given: dict) -> None:  # type: ignore[type-arg]
        self.argv: list[str] = given["argv"]
        self.env: dict[str, str] = given["env"]
        self.cwd: str = given["cwd"]
        self.write: list[str] = given["write"]
        self.seconds: float | None = given["seconds"]
        self.grace: float = given["grace"]
        self.memory: int | None = given["memory"]
        self.processes: int | None = given["processes"]
        self.disk: int | None = given["disk"]
        self.log: int = given["log"]
        self.wrappers: int = given["wrappers"]
        self.refusal: str = given["refusal"]
        self.warm: dict | None = given["warm"]  # type: ignore[type-arg]
        self.container: dict | None = given["container"]  # type: ignore[type-arg]
        self.lock: int = given["lock"]
        self.scoped: bool = given["scoped"]
        self.confined: dict | None = given["confined"]  # type: ignore[type-arg]
        self.user: tuple[int, int] | None = self.confined["user"] if self.confined else None
        if self.confined:
            self.write = [*self.write, self.confined["scratch"]]  # it counts as disk
        self.lease: str = given["lease"]
        self.machine: str = given["machine"]
        self.run_lease: str = given["run_lease"]
        self.fence: float = given["fence"]
        self.runner: int = given["runner"]


class SpawnedJob:
    """A job that is the supervisor's own child; `code` is None while it runs."""

    def __init__(self, plan: Plan, output: int, group: CgroupLimits | None) -> None:
        self.wrappers = plan.wrappers
        self.code: int | None = None
        self.confinement = confine(plan)
        self.pid = spawn(plan, output, group, self.confinement)
        if self.confinement:
            self.confinement.started()

    def reap(self) -> bool:
        """Take the exits of ended children; False when nothing of the job is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.code = os.waitstatus_to_exitcode(status)

    def processes(self) -> list[int]:
        """Every process of the job and of its wrappers."""
        return descendants(os.getpid())

    def ask(self) -> None:
        """SIGTERM to everything but the wrappers, whose end would be a SIGKILL for the job."""
        send_signal(descendants(os.getpid(), self.wrappers), signal.SIGTERM)

    def peak(self) -> int:
        """Bytes that the largest process had."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024

    def cpu(self) -> float:
        """CPU seconds of every process that ended."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def verdict(self) -> int:
        """Exit status as the job itself would have shown it without wrappers."""
        code = self.code or 0
        return 128 - code if self.wrappers and code > 128 and code - 128 in FATAL else code


def confine(plan: Plan) -> Confinement | None:
    """What is put around a job that nobody else shuts in."""
    if plan.confined is None:
        return None
    from tuneloop.sandboxes.confinement import Confinement  # imported only when needed

    return Confinement(plan.confined, plan.lock)


FATAL = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS}
FATAL |= {signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM, signal.SIGXCPU, signal.SIGSYS}


def exec_job(
    plan: Plan,
    above: int,
    output: int,
    errors: int,
    group: CgroupLimits | None,
    confinement: Confinement | None,
) -> None:
    """In the forked child: turn into the job; on failure tell why through `errors`. Never returns."""
    try:
        os.setsid()
        libc.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != above:
            os._exit(127)
        for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        with open("/proc/self/oom_score_adj", "w") as f:  # the kernel shall end jobs before us
            f.write("500")
        if group:
            group.add()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if KEYCTL:
            libc.syscall(KEYCTL, JOIN_SESSION_KEYRING, None)
        if plan.scoped:
            restrict_scope()
        for target in (1, 2):
            os.dup2(output, target)
        if confinement:
            confinement.enter(plan.env)
        os.chdir(plan.cwd)
        os.execvpe(plan.argv[0], plan.argv, plan.env)  # noqa: S606
    except OSError as e:
        os.write(errors, f"{plan.argv[0]}: {e}\n".encode())
    finally:
        os._exit(127)


def restrict_scope() -> None:
    """Keep signals and abstract sockets to the job; a kernel whose Landlock is older than ABI 6 cannot."""
    ruleset = libc.syscall(CREATE_RULESET, (c_uint64 * 3)(0, 0, SIGNALS_AND_SOCKETS), c_size_t(24), 0)
    if ruleset >= 0:
        libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.syscall(RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def spawn(plan: Plan, output: int, group: CgroupLimits | None, confinement: Confinement | None) -> int:
    """Start the job, return its pid, or that of the process around it. Raises NotStarted."""
    supervisor = os.getpid()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        if confinement:
            confinement.run_reaper(supervisor, lambda above: exec_job(plan, above, output, write, group, confinement))
        exec_job(plan, supervisor, output, write, group, None)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        problem = f.read()  # ends when exec closes the other end
    if problem:
        os.waitpid(pid, 0)
        raise NotStartedError(problem.decode())
    return pid
