"""One orchestrator per run: a lock that a dead process cannot keep."""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.bridge import pause
from tuneloop.core.errors import SetupError
from tuneloop.core.locks import is_locked, take

# Who holds a run's lock enters it again: the driver holds it for a whole sitting, every node for itself. Other threads
# of the process are told from it by their context.
_held: dict[Path, object] = {}
_own: contextvars.ContextVar[frozenset[object]] = contextvars.ContextVar("holds", default=frozenset())
_guard = threading.Lock()
PATIENCE = 25


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the run's lock. Raises SetupError naming who holds it."""
    path, mine = path.resolve(), object()
    with _guard:
        holder = _held.get(path)
        if holder is None:
            file = _take(path)
            _held[path] = mine
    if holder is None:
        before = _own.set(_own.get() | {mine})
        try:
            yield
        finally:
            _own.reset(before)
            with _guard:
                del _held[path]
                os.close(file)
    elif holder in _own.get():
        yield
    else:
        raise SetupError(f"run {path.parent.name} is worked on by another thread of this process; wait for it")


def _take(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    if not take(handle):
        who = _holder(handle)
        os.close(handle)
        raise SetupError(f"run {path.parent.name} is worked on by {who}; wait or stop it: tuneloop stop")
    text = f"pid {os.getpid()} on {socket.gethostname()}\n".encode()
    os.pwrite(handle, text, 0)
    os.ftruncate(handle, len(text))
    return handle


def _holder(handle: int) -> str:
    """Who holds the lock. Whoever took it this instant may not have signed yet: a dead signature is looked at again."""
    for _ in range(PATIENCE):
        who = os.pread(handle, 200, 0).decode(errors="replace").strip()
        found = re.fullmatch(r"pid (\d+) on (.+)", who)
        if found and (found[2] != socket.gethostname() or Path("/proc", found[1]).exists()):
            return who
        pause(0.02)
    return who or "another process"


def is_held(path: Path) -> bool:
    """Whether some process works on the run now."""
    return path.resolve() in _held or is_locked(path)
