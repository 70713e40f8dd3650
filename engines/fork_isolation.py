"""What keeps a forked job from the worker that it was forked from, and from its siblings, besides Landlock.

A filter of system calls that the supervisor sends along, a lock that the job holds without having it in hand, keys of its
own, and the worker's question who is calling. Not covered: names, times and modes of files can be seen and changed, and
named sockets below the worker's folders be called; jobs that spread over several GPUs share the loopback interface.
"""

from __future__ import annotations

import base64
import ctypes
import os
import socket
import struct
import sys
from pathlib import Path

import landlock

DUMPABLE, SECCOMP, FILTER = 4, 22, 2
NO_ACCESS, PRIVATE = 0, 2  # PROT_NONE, MAP_PRIVATE
PAGE = os.sysconf("SC_PAGE_SIZE")
CREDENTIALS = struct.Struct("3i")  # struct ucred
STEP = 8  # bytes of struct sock_filter


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def closed_to_others(yes: bool) -> None:
    """Whether processes of the same user are kept from this one's memory, descriptors and environment."""
    landlock.libc.prctl(DUMPABLE, int(not yes), 0, 0, 0)


def filter_calls(text: str) -> None:
    """Put the filter (struct sock_filter[] in base64, "" for none) on this process for ever. Raises OSError."""
    steps = base64.b64decode(text)
    if not steps:
        return
    program = Program(len(steps) // STEP, steps)
    if landlock.libc.prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def open_files() -> list[int]:
    """Descriptors beyond the three that every program has."""
    found = [int(entry.name) for entry in Path("/proc/self/fd").iterdir() if int(entry.name) > 2]
    return [handle for handle in found if Path(f"/proc/self/fd/{handle}").exists()]


def hold(lock: int) -> None:
    """Keep the lock alive as long as this process or a fork of it lives, and let the descriptor go.

    A mapping holds the open file as a descriptor does, but nobody can unlock through it. Raises OSError.
    """
    mmap = landlock.libc.mmap
    mmap.restype, mmap.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
    )
    if mmap(None, PAGE, NO_ACCESS, PRIVATE, lock, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    os.close(lock)


def own_keys() -> None:
    """What processes of one job prove to each other; forks would share the worker's with their siblings."""
    for name in ("multiprocessing.process", "multiprocess.process"):
        if name in sys.modules:
            sys.modules[name].current_process().authkey = os.urandom(32)


def is_job(connection: socket.socket) -> bool:
    """Whether the caller is below this process, or gone before it could be looked at; 0: outside of our namespace."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid = int(CREDENTIALS.unpack(data)[0])
    if pid == 0:
        return False
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return True
    return False
