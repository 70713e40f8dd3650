"""Machines on one home on a network file system: a file for each, touched and locked while it works.

Several may work at once where one sees the other's lock, as files that they share are guarded by locks; else one at a time.
"""

from __future__ import annotations

import _thread
import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.file_systems import network_kind
from tuneloop.core.state_folder import machine_name

FOLDER = "leases"
BEAT, STALE = 10.0, 60.0  # seconds between two signs of life, and after the last of which a machine counts as gone


@contextlib.contextmanager
def hold_lease(home: Path) -> Iterator[None]:
    """Keep the home for this machine while the block lasts and `STALE` seconds longer: jobs may outlive it.

    Nothing is done on a local file system. Raises InvalidRequestError while another machine, whose locks are not seen, holds it.
    """
    if not network_kind(home):
        yield
        return
    own = lease_file(home)
    renew(own)
    handle = lock_shared(str(own))
    over = threading.Event()
    beating = threading.Thread(target=_beat, args=(own, over), name="lease", daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
        os.close(handle)


def lock_shared(own: str) -> int:
    """A descriptor with a shared lock on the lease, by which other machines see whether locks are seen."""
    handle = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def is_seen_locked(lease: Path) -> bool:
    """Whether the lock of another machine is seen here."""
    try:
        handle = os.open(lease, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def lease_file(home: Path) -> Path:
    """This machine's."""
    return home / FOLDER / machine_name()


def find_lease(path: Path) -> Path | None:
    """This machine's lease on the home in which `path` lies; None where nothing is leased."""
    if not network_kind(path.parent):
        return None
    home = next((place for place in path.parents if (place / FOLDER).is_dir()), None)
    return lease_file(home) if home is not None else None


def renew(own: Path) -> None:
    """A sign of life. Raises InvalidRequestError when this machine had none lately and another one has."""
    before = signed_at(own)
    own.parent.mkdir(parents=True, exist_ok=True)
    own.touch(mode=0o644)
    os.utime(own)  # both times are the server's: clocks of machines differ
    now = signed_at(own) or time.time()
    if before is not None and now - before < STALE:
        return
    if other := other_machine(own, now):
        own.unlink(missing_ok=True)
        raise InvalidRequestError(in_use(own.parent.parent, *other))


def check_lease(path: Path) -> None:
    """Raises InvalidRequestError when another machine uses the home in which `path` lies: its locks are not seen here."""
    own = find_lease(path)
    now = time.time()
    if own is None or now - (signed_at(own) or 0) < STALE:
        return
    if other := other_machine(own, now):
        raise InvalidRequestError(in_use(own.parent.parent, *other))


def other_machine(own: Path, now: float) -> tuple[str, float] | None:
    """Another one that gave a sign of life in the last `STALE` seconds, unless its lock is seen here, and how many ago."""
    for path in own.parent.iterdir():
        signed = signed_at(path)
        if path != own and signed is not None and now - signed < STALE and not is_seen_locked(path):
            return path.name.rpartition("-")[0], max(0.0, now - signed)
    return None


def in_use(home: Path, machine: str, ago: float) -> str:
    """The refusal."""
    return (
        f"{home} is used by {machine} (last sign of life {ago:.0f} s ago), and one machine at a time may: work there, "
        f"or stop its runs and wait {STALE:.0f} s, or set FT_FILE_PATH to another folder"
    )


def signed_at(path: Path) -> float | None:
    """When the machine of that lease signed last; it is opened, since a client of NFS may keep older times."""
    try:
        with path.open("rb") as f:
            return os.fstat(f.fileno()).st_mtime
    except FileNotFoundError:
        return None


def interrupt_main() -> None:
    """KeyboardInterrupt in the main thread, also where SIGINT is ignored, as in what a shell starts in the background."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        _thread.interrupt_main()
        return
    import ctypes  # a fifth of a command's start

    main, what = ctypes.c_ulong(threading.main_thread().ident or 0), ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, what)


def _beat(own: Path, over: threading.Event) -> None:
    while not over.wait(BEAT):
        try:
            renew(own)
        except InvalidRequestError as e:  # this machine slept, and another one went on
            sys.stderr.write(f"tuneloop: {e}\n")
            interrupt_main()
            return
        except OSError:  # the server is away for a while
            continue
