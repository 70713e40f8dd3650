"""The process tree of a job, as seen in /proc. Standard library only, as all of the supervisor."""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager

TYPE_CHECKING = False  # typing would be a third of a supervisor's start
if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = os.sysconf("SC_PAGE_SIZE")
SUBREAPER = 36

libc = ctypes.CDLL(None, use_errno=True)


def children(pid: int) -> list[int]:
    """Direct children, [] when `pid` is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as f:
                found += map(int, f.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def descendants(root: int, skip: int = 0) -> list[int]:
    """Descendants of `root` without the first `skip` generations."""
    found: list[int] = []
    generation = children(root)
    while generation:
        if skip <= 0:
            found += generation
        skip -= 1
        generation = [child for pid in generation for child in children(pid)]
    return found


def resident_bytes(pid: int) -> int:
    """Resident bytes; pages shared with others count whole."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as f:
            return int(f.read().split()[1]) * PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Resident bytes, shared pages divided among their users; slow, so asked only when `resident_bytes` alarms."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith(b"Pss:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except PermissionError:
        return resident_bytes(pid)


def send_signal(pids: list[int], number: int) -> None:
    """Signal each; one that is gone or no longer ours is no error."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


@contextmanager
def acting_as(user: tuple[int, int] | None) -> Iterator[None]:
    """Look as the job's user: root of a container may not look into processes of others. None: who we are."""
    if user is None:
        yield
        return
    os.setegid(user[1])
    os.seteuid(user[0])
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def adopt_orphans() -> None:
    """Descendants whose parent ends become our children, also after setsid and double fork."""
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
