"""One orchestrator per run: a lock that a dead process cannot keep, and a lease for other machines (`core/run_lease.py`)."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import acquire, open_lock
from tuneloop.core.run_lease import RunLease, is_worked_on

# A process that holds a run's lock enters it again: the driver holds it for a whole session, every node for itself.
_held = Counter[Path]()
_files: dict[Path, tuple[int, RunLease]] = {}
_turns: dict[Path, threading.Lock] = {}  # another machine's lease may have to be watched for a minute
_driven = set[Path]()
_guard = threading.Lock()
# Called when another machine has taken a run: nodes at work raise the error. Where none is, the next write does.
when_lost: list[Callable[[RunFolder, InfrastructureError], None]] = []
PATIENCE = 25
ENDING = 5.0  # seconds for what a killed process left to let go of its lock


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the run's lock and lease. Raises InvalidRequestError naming who holds them."""
    given, path = path, path.resolve()
    with _guard:
        turn = _turns.setdefault(path, threading.Lock())
    with turn:
        if not _held[path]:
            _files[path] = _acquire_both(path, given)
        _held[path] += 1
    try:
        yield
    finally:
        with turn:
            _held[path] -= 1
            if not _held[path]:  # threads share the file: the last one releases it
                handle, lease = _files.pop(path)
                lease.release()
                os.close(handle)


def _acquire_both(path: Path, given: Path) -> tuple[int, RunLease]:
    """The lock of this machine first: who has it need not fear another process of this machine."""
    handle = _acquire(path)
    try:
        return handle, RunLease(given.parent, lambda error: _end_session(path, error))
    except BaseException:
        os.close(handle)
        raise


def _end_session(path: Path, error: InfrastructureError) -> None:
    for end in when_lost:
        end(RunFolder(path.parent), error)


@contextlib.contextmanager
def hold_exclusively(path: Path) -> Iterator[None]:
    """Hold it as the only session of this process, too. Raises InvalidRequestError likewise."""
    path = path.resolve()
    with _guard:
        if path in _driven:
            raise InvalidRequestError(
                f"run {path.parent.name} is worked on by another thread of this process; wait for it"
            )
        _driven.add(path)
    try:
        with hold_lock(path):
            yield
    finally:
        with _guard:
            _driven.discard(path)


_working: dict[tuple[Path, int], threading.Lock] = {}


@contextlib.contextmanager
def serialize_nodes(path: Path, slot: int = 0) -> Iterator[None]:
    """Of a run's nodes, or of one experiment's, one at a time works: one that was cancelled may still be on its last step.

    Raises PausedError when the asynchronous caller gives up waiting.
    """
    with _guard:
        turn = _working.setdefault((path.resolve(), slot), threading.Lock())
    while not turn.acquire(timeout=0.2):
        pause(0)
    try:
        yield
    finally:
        turn.release()


def _acquire(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open_lock(path, 0o644)
    until = time.monotonic() + ENDING
    while not acquire(handle):
        who, alive = _holder(handle)
        if (
            alive or time.monotonic() > until
        ):  # a child that was just forked holds a dead one's lock until it is executed
            os.close(handle)
            raise InvalidRequestError(f"run {path.parent.name} is worked on by {who}; wait or stop it: tuneloop stop")
    text = f"pid {os.getpid()} on {socket.gethostname()}\n".encode()
    os.pwrite(handle, text, 0)
    os.ftruncate(handle, len(text))
    return handle


def _holder(handle: int) -> tuple[str, bool]:
    """Who holds the lock, and whether it lives. A new holder may not have signed yet: a dead signature is read again."""
    for _ in range(PATIENCE):
        who = os.pread(handle, 200, 0).decode(errors="replace").strip()
        found = re.fullmatch(r"pid (\d+) on (.+)", who)
        if found and (found[2] != socket.gethostname() or Path("/proc", found[1]).exists()):
            return who, True
        pause(0.02)
    return who or "another process", False


def is_held(path: Path) -> bool:
    """Whether some process works on the run now."""
    return bool(_held[path.resolve()]) or is_worked_on(path.parent)
