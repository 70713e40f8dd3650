"""landlock: for machines without user namespaces and containers; a job shuts itself in by the kernel's rules for files.

Landlock's rules (`landlock_rules.py`): the system's programs, the paths that the command lists, a scratch folder of the job's
own, and TCP ports. Two filters of system calls: `seccomp.py`'s and `confined_calls.py`'s, which closes what namespaces hold in
bubblewrap and what older releases of Landlock cannot. No capabilities, no new privileges, limits kept by the supervisor, a
process above the job that ends all of it (`confinement.py`). Started by root, jobs are a user of their own where root may
become another; else they stay root without capabilities. An engine's worker may listen at a
socket in its folder and connect nowhere; what it forks keeps to the job's own lists. Below release 6, and where a job needs
ports, engines start cold.

Not covered, beyond what bubblewrap does not cover: names and sizes of files anywhere, command lines of other processes, and
/dev/shm of engines' jobs are seen; modes, times and attributes cannot be changed, not even of the job's own files; where a
read-only path or the job's own folder lies in a writable one, nothing new can be made in the folders between the two. Below
release 6 a job signals its first process and its own group alone; below 4 it has no ports; in release 1 files cannot be moved
from folder to folder.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import tuneloop
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import Command, Limits, Power
from tuneloop.sandboxes import seccomp
from tuneloop.sandboxes.bubblewrap import ETC, ETC_NETWORK, GPU_DEVICES, with_resolved
from tuneloop.sandboxes.confined_calls import Network, build_confined_filter
from tuneloop.sandboxes.confinement import drop_capabilities, restrict
from tuneloop.sandboxes.job_user import JOB_USER, chown_tree
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.landlock_rules import (
    READ,
    READ_DIR,
    SCOPES_SINCE,
    TCP_SINCE,
    Ruleset,
    around,
    kernel_abi,
    write_rights,
)
from tuneloop.sandboxes.local import LocalSandbox, WrappedCommand, may_use_several_gpus

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", *ETC)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
ENGINES = os.path.realpath(Path(tuneloop.__file__).parent / "engines")
CONFINED_PYTHON = (
    f"{ENGINES}/confined_python"  # on generated code's PYTHONPATH: multiprocessing without sockets and /dev/shm
)
SHARED_MEMORY = "/dev/shm"  # noqa: S108
MISSING = (
    "the kernel has no Landlock, or does not let it be used (gVisor, kernels before 5.13, `lsm=` without landlock): "
    "right is a kernel with CONFIG_SECURITY_LANDLOCK and `landlock` in /sys/kernel/security/lsm"
)
LACKS = "jobs have no /proc, pids or quota of their own, and see names of all files: THREAT_MODEL.md"
SIGNALS_REFUSED = "jobs signal only their first process and their own group"
ROOT_ALONE = "jobs are root without capabilities: no other user can be had here"
User = tuple[int, int]


class LandlockSandbox(LocalSandbox):
    """Every power but a network of one's own; `note` says what a run should know."""

    kind = "landlock"
    powers: frozenset[Power] = frozenset(get_args(Power))

    def __init__(self, user: User | None = None, abi: int | None = None) -> None:
        """`user`: who jobs become, None for the caller. `abi`: no right of a later release of Landlock is asked for."""
        self.user = user
        self.abi = min(kernel_abi(), abi or kernel_abi())

    @property
    def note(self) -> str:
        """One line for the start of a run."""
        alone = [ROOT_ALONE] if self.user is None and not os.geteuid() else []
        signals = [SIGNALS_REFUSED] if self.abi < SCOPES_SINCE else []
        return "; ".join([LACKS, *signals, *alone])

    def check_reachable(self, folder: Path) -> None:
        """Where jobs are another user, every folder on the way has to be open. Raises InvalidRequestError with the cure."""
        if self.user is not None:
            there = next(place for place in (folder, *folder.parents) if place.exists())
            check_walkable((str(there),), self.user)

    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:  # noqa: ARG002
        """The rules and filters that the job puts on itself. Raises InvalidRequestError, InfrastructureError."""
        network = network_of(command)
        if network == "own ports" and self.abi < TCP_SINCE:
            raise InvalidRequestError(
                "several GPUs of one job, and vLLM, talk over TCP, which this kernel's Landlock cannot bound: right is "
                "Linux 6.7, one GPU (CUDA_VISIBLE_DEVICES=0) and TUNELOOP_EVAL_BACKEND=hf, or --sandbox docker"
            )
        scratch = self._hand_over(command)
        rules = self._rules(folder, command, network, scratch)
        filters = [seccomp.build_filter(shared=True), build_confined_filter(network, self.abi)]
        given: dict[str, Any] = {"rules": rules, "filters": filters, "user": self.user}
        given |= {"scratch": scratch, "endpoint": command.endpoint}
        given["python_path"] = CONFINED_PYTHON if command.generated else ""
        # Where the filter lets a job signal one process alone, a worker could not end its jobs.
        warm = network == "none" and self.abi >= SCOPES_SINCE
        fork_filter = build_confined_filter("none", self.abi) if warm else b""
        return WrappedCommand(command.argv, wrappers=1, handles=(rules,), confined=given, fork_filter=fork_filter)

    def _hand_over(self, command: Command) -> str:
        """A scratch folder. It and the writable folders are the jobs' user's. Raises InvalidRequestError, InfrastructureError."""
        if self.user is not None:
            chown_tree(command.write, self.user)
            proxy = str(Path(command.endpoint).parent)  # the supervisor's to reach
            read = [path for path in command.read if path != proxy]
            check_walkable((*read, *command.write, command.argv[0]), self.user)
        scratch = tempfile.mkdtemp(prefix="tuneloop-job-")
        if self.user is not None:
            os.chown(scratch, *self.user)
        return scratch

    def _rules(self, folder: Path, command: Command, network: Network, scratch: str) -> int:
        """A descriptor of what the job may reach."""
        rules = Ruleset(self.abi, ports=network != "all" and self.abi >= TCP_SINCE)
        own, write = os.path.realpath(folder), [os.path.realpath(path) for path in command.write]
        closed = [] if command.forks else [own]  # what a worker forks does not see it, and new folders come
        read = [path for path in map(os.path.realpath, command.read) if path not in write]
        gpus = gpu_devices(command)
        rules.allow(existing((*SYSTEM, *(ETC_NETWORK if network == "all" else ()), *(["/sys"] if gpus else []))), READ)
        rules.allow(existing((*DEVICES, *gpus)), write_rights(self.abi))
        if not command.generated:  # names are random: others' cannot be listed, nor guessed
            rules.allow(existing((SHARED_MEMORY,)), write_rights(self.abi) & ~READ_DIR)
        rules.allow((place for path in read for place in around(path, closed)), READ)
        rules.allow((place for path in write for place in around(path, [*closed, *read])), write_rights(self.abi))
        rules.allow((scratch,), write_rights(self.abi))
        rules.allow((CONFINED_PYTHON,), READ)
        rules.allow((ENGINES,), READ_DIR)  # Python imports from a folder only when it can list it
        if network == "own ports":
            rules.allow_own_ports()
        return rules.handle


def shut_in(read: Iterable[str]) -> None:
    """This process and what comes of it, for good: it reads these paths and the system's, writes nothing, has no socket.

    Raises InfrastructureError, OSError.
    """
    abi = kernel_abi()
    rules = Ruleset(abi, ports=abi >= TCP_SINCE)
    rules.allow(existing((*SYSTEM, *with_resolved(read))), READ)
    rules.allow(existing(DEVICES), write_rights(abi))
    drop_capabilities(None)
    restrict(rules.handle, [seccomp.build_filter(shared=True), build_confined_filter("none", abi)])


def network_of(command: Command) -> Network:
    """All where the command has a network; TCP for trusted jobs that talk to themselves; a worker's; else no socket."""
    if command.network:
        return "all"
    if command.forks:
        return "listening"
    talks = may_use_several_gpus(command.env) or "VLLM_NO_USAGE_STATS" in command.env
    return "own ports" if talks and not command.generated else "none"


def gpu_devices(command: Command) -> list[str]:
    """As in bubblewrap: not where an empty CUDA_VISIBLE_DEVICES hides them, nor for generated code that names none."""
    if not command.env.get("CUDA_VISIBLE_DEVICES", "" if command.generated else "all"):
        return []
    return [str(path) for pattern in GPU_DEVICES for path in Path("/dev").glob(pattern)]


def existing(paths: Iterable[str]) -> list[str]:
    """Those that are here."""
    return list(filter(os.path.exists, paths))


def find_user() -> User | None:
    """Who jobs become: a user of their own where root may become another, look at it and end it; None: who we are."""
    if os.geteuid():
        return None
    user = (JOB_USER, JOB_USER)
    return user if may_become(user) else None


def may_become(user: User) -> bool:
    """Whether a child of ours can become `user`, and we can end that child. Tried for real."""
    told, tell = os.pipe()
    hold, release = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(release)
            drop_capabilities(user)
            os.write(tell, b"y")
            os.read(hold, 1)
        finally:
            os._exit(0)
    for handle in (tell, hold):
        os.close(handle)
    try:
        done = os.read(told, 1) == b"y"
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        done = False
    for handle in (told, release):  # who cannot be ended ends by this
        os.close(handle)
    os.waitpid(pid, 0)
    return done


def check_walkable(paths: Iterable[str], user: User) -> None:
    """Jobs of another user have to get there. Raises InvalidRequestError with the cure."""
    for path in with_resolved(paths):
        for place in (path, *map(str, Path(path).parents)):
            found = Path(place).stat()
            wanted = 0o1 if place != path else 0o5 if stat.S_ISDIR(found.st_mode) else 0o4
            mode = found.st_mode >> 6 if found.st_uid == user[0] else found.st_mode
            if mode & wanted != wanted:
                raise InvalidRequestError(
                    f"{place} is closed to jobs, which run as user {user[0]} when root starts tuneloop: "
                    f"right is `chmod a+rX {place}`, or a project and FT_FILE_PATH below /var/lib or /opt"
                )


def landlock_problem() -> str | None:
    """Why this machine's runs cannot use landlock, with the cure; None when they can."""
    try:
        open_landlock()
    except InvalidRequestError as e:
        return str(e)
    return None


def open_landlock() -> LandlockSandbox:
    """The sandbox of this machine, for whom its folders are open. Raises InvalidRequestError with the cure."""
    if problem := probe_landlock():
        raise InvalidRequestError(problem)
    user = find_user()
    if user is not None:
        check_walkable((sys.base_prefix, ENGINES), user)
    return LandlockSandbox(user)


TRIAL = """
import os, socket
for attempt in (socket.socket, lambda: open("../closed"), lambda: open("../closed", "w")):
    try: attempt()
    except OSError: print("held")
"""


@cache
def probe_landlock() -> str | None:
    """Why landlock cannot be used here, with the cure; None when it works. Runs a job in it once for real."""
    if sys.platform != "linux" or not kernel_abi():
        return MISSING
    if os.uname().machine not in seccomp.ARCHITECTURES:
        return f"no filter of system calls is known for {os.uname().machine}"
    with tempfile.TemporaryDirectory() as place:
        work, job = Path(place, "work"), Path(place, "job")
        work.mkdir()
        Path(place, "closed").touch()
        command = Command(
            argv=(sys.executable, "-I", "-S", "-c", TRIAL),
            cwd=str(work),
            read=(sys.prefix, sys.base_prefix),
            write=(str(work),),
            generated=True,
            limits=Limits(seconds=20),
        )
        sandbox = LandlockSandbox()
        try:
            sandbox.start(job, command)
            wait(sandbox, job, every=0.01)
        except InfrastructureError as e:
            return f"{e}; {MISSING}"
        told = (job / "log.txt").read_text(errors="replace")
    return (
        None
        if told == "held\n" * 3
        else f"Landlock and seccomp did not hold a trial ({told.strip()[-200:]}); {MISSING}"
    )
