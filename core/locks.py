"""Advisory locks on files: the kernel releases one with its process, unless a child inherited the descriptor."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRIES, PAUSE = 20, 0.005


def acquire(handle: int) -> bool:
    """Lock exclusively, without waiting for a holder; the shared lock of someone who only looks is waited for."""
    for _ in range(TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        else:
            return True
    return False


@contextmanager
def try_lock(path: Path) -> Iterator[int | None]:
    """A descriptor of the locked file, which is made if missing; None while somebody else holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield handle if acquire(handle) else None
    finally:
        os.close(handle)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file's lock against other processes; waits for its turn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Whether somebody holds the file's lock; those who look at the same time do not see each other.

    A job may have left a link, a pipe or a socket under that name: nobody locks those, and they are not waited for.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return False
        raise
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
