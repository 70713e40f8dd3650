"""Advisory locks on files, and where they lie: the kernel releases one with its process, unless a child inherited it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuneloop.core.file_systems import refuses_locks
from tuneloop.core.files import digest
from tuneloop.core.lease import check_lease
from tuneloop.core.state_folder import state_folder

TRIES, PAUSE = 20, 0.005


def lock_file(path: Path) -> Path:
    """The file that is locked for `path`: itself, or one in the state folder where its file system refuses locks.

    Raises InvalidRequestError when it is refused and another machine uses the home: its locks lie elsewhere.
    """
    if not refuses_locks(path.parent):
        return path
    check_lease(path)
    return state_folder() / "locks" / digest(os.path.realpath(path.parent), path.name)


def open_lock(path: Path, mode: int = 0o600) -> int:
    """A descriptor of the file that is locked for `path`; both are created if missing, as others look for `path`."""
    file = lock_file(path)
    if file != path:
        path.touch(mode)
        file.parent.mkdir(mode=0o700, exist_ok=True)
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)


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
    handle = open_lock(path)
    try:
        yield handle if acquire(handle) else None
    finally:
        os.close(handle)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file's lock; waits until it is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open_lock(path, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether a process holds the file's lock; concurrent calls do not affect each other.

    A job may have left a link, a pipe or a socket under that name: these count as not locked and do not block.
    """
    try:
        handle = os.open(lock_file(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
