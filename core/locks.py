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
    """Lock exclusively without waiting for a holder; the shared lock of `is_locked` is waited for briefly."""
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
    """A descriptor of the locked file, which is created if missing; None while another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield handle if acquire(handle) else None
    finally:
        os.close(handle)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file's lock; waits until it is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Whether a process holds the file's lock; concurrent calls do not affect each other.

    A job may have left a link, a pipe or a socket under that name: these count as not locked and do not block.
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
