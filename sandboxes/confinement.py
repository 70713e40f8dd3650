"""What a job in the landlock sandbox does to itself before it begins, and the process above it. Standard library only.

The reaper is forked by the supervisor and forks the job. It holds the job's lock, adopts what the job leaves alone, ends all
of it with the job or with the supervisor, and exits as the job did.
"""

# pathlib would be a third of a supervisor's start.

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enums, whose import takes longer
import ctypes
import os
import struct
import time

from tuneloop.sandboxes.process_tree import adopt_orphans, descendants, libc, send_signal

TYPE_CHECKING = False  # typing would be a third of a supervisor's start
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from typing import NoReturn

PDEATHSIG, SECCOMP, DROP_BOUND, NO_NEW_PRIVS, AMBIENT = 1, 22, 24, 38, 47  # prctl
FILTER, CLEAR_ALL = 2, 4
RESTRICT_SELF = 446  # landlock_restrict_self, the same on every architecture
CAPSET = {"x86_64": 126, "aarch64": 91}.get(os.uname().machine)
CAPABILITY_VERSION = 0x20080522
CAPABILITIES = 64
STEP = 8  # bytes of struct sock_filter
OWN = struct.pack("=I", 0x7FFFFFFE)  # in a filter: the pid of the job's first process
HANDLES = 1 << 16  # more descriptors than a supervisor has
ENDED = 128  # a job that a signal ended is told as 128 and its number
CONNECT_SECONDS = 60.0  # without a listener at the proxy's socket, as in forward.py
CONNECT_PAUSE = 0.1
RETRY_PAUSE = 0.01  # after a refusal: a job that asks without end must not keep the supervisor busy
ENDPOINT = "TUNELOOP_ENDPOINT"  # in a job's environment: the descriptor at which to ask for a connection to the models


class Confinement:
    """A descriptor of Landlock's rules, filters of system calls, the user to become (None: stay), the scratch folder.

    `lock`: the descriptor of the job's lock, which the reaper holds and the job does not.

    `python_path`: a folder that the job's Pythons import from before others, "" for none.

    `endpoint`: the socket of the models' proxy, "" for none; the job asks at `request_end` for connections to it.
    """

    def __init__(self, given: dict, lock: int) -> None:  # type: ignore[type-arg]
        self.lock = lock
        self.rules: int = given["rules"]
        self.filters: list[bytes] = given["filters"]
        self.user: tuple[int, int] | None = given["user"]
        self.scratch: str = given["scratch"]
        self.endpoint: str = given["endpoint"]
        self.python_path: str = given["python_path"]
        self.request_end = -1
        if self.endpoint:
            import socket  # as heavy as all the rest

            self.supervisor_end, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.request_end = inside.detach()

    def run_reaper(self, supervisor: int, job: Callable[[int], None]) -> NoReturn:
        """In a fork of the supervisor: start `job`, which is told our pid, and be above it until all of it is gone."""
        try:
            os.setsid()
            adopt_orphans()
            reaper = os.getpid()
            pid = os.fork()
            if pid == 0:
                job(reaper)
            os.closerange(0, self.lock)
            os.closerange(self.lock + 1, HANDLES)
            signal.signal(signal.SIGTERM, lambda *_: end_all())
            libc.prctl(PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != supervisor:
                end_all()
            code = next(os.waitstatus_to_exitcode(status) for ended, status in ended_children() if ended == pid)
            end_all()
            for _ in ended_children():
                end_all()
            remove_tree(self.scratch)
            os._exit(code if code >= 0 else ENDED - code)
        finally:
            os._exit(ENDED - 1)

    def enter(self, env: dict[str, str]) -> None:
        """In the job: from here on, for ever: no lock, no capabilities, the rules, the filters. Raises OSError."""
        os.close(self.lock)
        env["TMPDIR"] = self.scratch
        if self.python_path:
            env["PYTHONPATH"] = ":".join(filter(None, (self.python_path, env.get("PYTHONPATH"))))
        if self.endpoint:
            os.set_inheritable(self.request_end, True)
            env[ENDPOINT] = str(self.request_end)
        drop_capabilities(self.user)
        checked(libc.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")  # a new user has none
        restrict(self.rules, self.filters)

    def started(self) -> None:
        """In the supervisor, once the job runs."""
        os.close(self.rules)
        if self.endpoint:
            os.close(self.request_end)
            serve_connections(self.supervisor_end, self.endpoint)


def restrict(rules: int, filters: list[bytes]) -> None:
    """Put the rules, whose descriptor is closed, and the filters on this process and all that come of it. Raises OSError."""
    checked(libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    checked(libc.syscall(RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)
    for steps in filters:
        add_filter(steps.replace(OWN, struct.pack("=I", os.getpid())))


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def add_filter(steps: bytes) -> None:
    """Put a filter of system calls on this process and all that come of it. Raises OSError."""
    program = Program(len(steps) // STEP, steps)
    checked(libc.prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0), "seccomp")


def drop_capabilities(user: tuple[int, int] | None) -> None:
    """Become `user`, and have no capability and no way to one. Raises OSError."""
    for number in range(CAPABILITIES):
        if libc.prctl(DROP_BOUND, number, 0, 0, 0):
            break  # not ours to drop: without new privileges it gives nothing either
    if user is not None:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    libc.prctl(AMBIENT, CLEAR_ALL, 0, 0, 0)
    header, none = struct.pack("=II", CAPABILITY_VERSION, 0), struct.pack("=6I", *[0] * 6)
    checked(libc.syscall(CAPSET, header, none), "capset")


def checked(result: int, what: str) -> None:
    """Raises OSError."""
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def remove_tree(folder: str) -> None:
    """Whatever lies in it, however deep; links are not followed. Nothing of the job lives any more."""
    if os.path.lexists(folder):
        os.waitpid(os.posix_spawn("/bin/rm", ["rm", "-rf", "--", folder], {}), 0)


def end_all() -> None:
    """SIGKILL to everything below us."""
    send_signal(descendants(os.getpid()), signal.SIGKILL)


def ended_children() -> Iterator[tuple[int, int]]:
    """Pid and status of children as they end, until there are none."""
    while True:
        try:
            yield os.waitpid(-1, 0)
        except ChildProcessError:
            return


def serve_connections(ours: socket.socket, endpoint: str) -> None:
    """Hand the job connections to the models' proxy, in a thread, as long as a process of the job can ask.

    A job in this sandbox cannot make sockets; `engines/handed_socket.py` is its side. One byte asks for a connection. It
    comes as a descriptor with one byte; without a proxy, the byte comes alone.
    """
    import threading

    threading.Thread(target=answer, args=(ours, endpoint), daemon=True).start()


def answer(ours: socket.socket, endpoint: str) -> None:
    """Answer requests until the job is over."""
    import socket

    try:
        while ours.recv(1):
            try:
                with connect(endpoint) as line:
                    socket.send_fds(ours, [b"c"], [line.fileno()])
            except OSError:
                time.sleep(RETRY_PAUSE)
                ours.send(b"n")
    except OSError:
        return


def connect(endpoint: str) -> socket.socket:
    """Connect to the proxy, whose path may be of any length; waits for it. Raises OSError."""
    import socket

    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            folder = os.open(os.path.dirname(endpoint), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
            try:
                line.connect(f"/proc/self/fd/{folder}/{os.path.basename(endpoint)}")  # noqa: PTH119
            finally:
                os.close(folder)
        except OSError:
            line.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(CONNECT_PAUSE)
        else:
            return line
