"""What `_multiprocessing` has, for a job that may not write to /dev/shm: semaphores in memory that forks share, or in TMPDIR.

The C library's `sem_open` knows no other place. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from threading import get_ident

libc = ctypes.CDLL(None, use_errno=True)
RECURSIVE = 0  # the other kind is 1, a semaphore
SIZE = 64  # bytes; sem_t is 32
SHARED = 1


class Timespec(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class SemLock:
    """As the one in C: `name` is None where nobody opens it by name; `kind` 0 may be acquired again by its thread."""

    SEM_VALUE_MAX = 0x7FFFFFFF

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        """Raises FileExistsError where another one has the name."""
        self._place(kind, maxvalue, None if unlink else name, new=True)
        call("sem_init", self._semaphore, SHARED, ctypes.c_uint(value))

    @classmethod
    def _rebuild(cls, handle: int, kind: int, maxvalue: int, name: str) -> SemLock:  # noqa: ARG003
        """In a process that was spawned. Raises FileNotFoundError."""
        lock = cls.__new__(cls)
        lock._place(kind, maxvalue, name, new=False)
        return lock

    def _place(self, kind: int, maxvalue: int, name: str | None, *, new: bool) -> None:
        self.kind, self.maxvalue, self.name, self.handle = kind, maxvalue, name, id(self)
        self._depth, self._thread = 0, 0
        handle = (
            -1 if name is None else os.open(path_of(name), os.O_RDWR | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
        )
        if handle >= 0 and new:
            os.truncate(handle, SIZE)
        self._memory = mmap.mmap(handle, SIZE)
        self._semaphore = (ctypes.c_char * SIZE).from_buffer(self._memory)
        if handle >= 0:
            os.close(handle)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Whether it was acquired; `timeout` in seconds, None: none."""
        if self.kind == RECURSIVE and self._is_mine():
            self._depth += 1
            return True
        if not self._wait(block, timeout):
            return False
        self._depth, self._thread = self._depth + 1, get_ident()
        return True

    __enter__ = acquire

    def _wait(self, block: bool, timeout: float | None) -> bool:
        end = None if timeout is None else time.time() + max(0.0, timeout)
        until = Timespec(int(end or 0), int((end or 0) % 1 * 1e9))
        while True:  # a signal's handler runs between two calls
            try:
                if not block:
                    call("sem_trywait", self._semaphore)
                elif end is None:
                    call("sem_wait", self._semaphore)
                else:
                    call("sem_timedwait", self._semaphore, ctypes.byref(until))
            except InterruptedError:
                continue
            except OSError as e:
                if e.errno in (errno.EAGAIN, errno.ETIMEDOUT):
                    return False
                raise
            return True

    def release(self) -> None:
        """Raises AssertionError for somebody else's recursive lock, ValueError above the highest value."""
        if self.kind == RECURSIVE:
            if not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self._depth > 1:
                self._depth -= 1
                return
        elif self._get_value() >= self.maxvalue:
            raise ValueError("semaphore or lock released too many times")
        self._depth -= 1
        call("sem_post", self._semaphore)

    def __exit__(self, *_: object) -> None:
        self.release()

    def _count(self) -> int:
        return self._depth

    def _is_mine(self) -> bool:
        return self._depth > 0 and self._thread == get_ident()

    def _get_value(self) -> int:
        value = ctypes.c_int()
        call("sem_getvalue", self._semaphore, ctypes.byref(value))
        return max(0, value.value)

    def _is_zero(self) -> bool:
        return self._get_value() == 0

    def _after_fork(self) -> None:
        self._depth = 0


def sem_unlink(name: str) -> None:
    """Nobody can open it any more. Raises FileNotFoundError."""
    os.unlink(path_of(name))  # noqa: PTH108


def path_of(name: str) -> str:
    """The file of a named semaphore."""
    return f"{os.environ['TMPDIR']}/sem.{name.lstrip('/')}"


def call(name: str, *words: object) -> None:
    """A function of the C library, without Python's lock. Raises OSError."""
    if getattr(libc, name)(*words):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
