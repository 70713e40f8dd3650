"""The first process in a job's container: starts the job, reaps all its processes and reports how it ended.

Runs as `python -I -S pid_one.py FOLDER` inside; FOLDER holds `job.json` and two named pipes. The job's output goes to
`log`, one line of JSON at the end to `report`. It ends when both have been read to the end: whoever takes the place of
a killed supervisor misses nothing. It holds `report` locked while it lives, and ends with all its processes when `log` is no
longer there: a daemon that was killed may forget a container which runs.
"""

# Part of every start; pathlib would be half of it.
# ruff: noqa: PTH116, PTH123

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
import termios
import time

DUMPABLE = 4
SECCOMP, BY_FILTER = 22, 2
libc = ctypes.CDLL(None, use_errno=True)
PATIENCE = 3600.0  # seconds that a job's exit status waits to be read
GLANCE = 0.5  # seconds between two looks at whether it is given up


def main(folder: str) -> None:
    """Start, reap, report, wait until the report was read. Outside of a container this would end every process."""
    if os.getpid() != 1:
        sys.exit("right is the first process of a container")
    log = os.open(f"{folder}/log", os.O_RDWR)
    report = os.open(f"{folder}/report", os.O_RDWR)
    claim_container(folder, report)
    libc.prctl(DUMPABLE, 0, 0, 0, 0)  # the job, which is of the same user, cannot look or reach into us
    for target in (1, 2):
        os.dup2(log, target)
    with open(f"{folder}/job.json") as f:
        job = json.load(f)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        exec_job(job, write)
    os.close(write)
    with os.fdopen(read) as f:
        refusal = f.read()  # ends when exec closes the other end
    code = reap_all(pid)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = {"code": code, "peak": used.ru_maxrss * 1024, "cpu": used.ru_utime + used.ru_stime, "refusal": refusal}
    os.write(report, b"\n" + json.dumps(end).encode() + b"\n")  # a line of its own, whatever the job left in there
    deadline = time.monotonic() + PATIENCE
    while (has_unread(log) or has_unread(report)) and time.monotonic() < deadline:
        time.sleep(0.003)


def claim_container(folder: str, report: int) -> None:
    """Be the job's only container, and end when the job is abandoned. Raises BlockingIOError when another one runs."""

    def look(*_: object) -> None:
        try:
            os.stat(f"{folder}/log")
        except FileNotFoundError:
            signal.setitimer(signal.ITIMER_REAL, 0)
            kill_all()
            reap_all(0)  # the lock is free when nothing of the job lives
            os._exit(1)
        except OSError:  # passes
            return

    fcntl.flock(report, fcntl.LOCK_EX | fcntl.LOCK_NB)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, GLANCE, GLANCE)


def exec_job(job: dict[str, object], errors: int) -> None:
    """In the forked child: turn into the job; on failure tell why through `errors`. Never returns."""
    argv: list[str] = job["argv"]  # type: ignore[assignment]
    env: dict[str, str] = job["env"]  # type: ignore[assignment]
    try:
        os.setsid()
        libc.prctl(DUMPABLE, 1, 0, 0, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        with open("/proc/self/oom_score_adj", "w") as f:  # the kernel shall end jobs before us
            f.write("500")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(str(job["cwd"]))
        install_filter(bytes.fromhex(str(job["filter"])))
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except OSError as e:
        os.write(errors, f"{argv[0]}: {e}\n".encode())
    finally:
        os._exit(127)


class SockFprog(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def install_filter(program: bytes) -> None:
    """Put on our own filter of system calls, above the daemon's. Raises OSError."""
    steps = ctypes.create_string_buffer(program, len(program) or 1)
    if program and libc.prctl(
        SECCOMP, BY_FILTER, ctypes.byref(SockFprog(len(program) // 8, ctypes.addressof(steps))), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def reap_all(pid: int) -> int:
    """The job's exit status, when it and everything that it left is gone."""
    code = 0
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            return code
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            pid = 0
        if not pid:
            kill_all()


def kill_all() -> None:
    """Kill everybody in here but us."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def has_unread(pipe: int) -> bool:
    """Whether something is still in it."""
    return fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) != bytes(4)


if __name__ == "__main__":
    main(sys.argv[1])
