"""Which file system a path lies on: those of a network lack what local ones have."""

from __future__ import annotations

import ctypes
import fcntl
import os
import tempfile
from functools import cache
from pathlib import Path

NETWORK = {
    0x6969: "NFS",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0x00C36400: "CephFS",
    0xAAD7AAEA: "PanFS",
    0x517B: "SMB",
    0xFE534D42: "SMB",
    0xFF534D42: "CIFS",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x01021997: "9P",
    0x65735546: "FUSE",
}

# One kernel at a time mounts these: what another kernel held there is over.
LOCAL = {
    0xEF53: "ext4",
    0x58465342: "XFS",
    0x9123683E: "Btrfs",
    0x01021994: "tmpfs",
    0x794C7630: "overlay",
}


def existing(path: Path) -> Path:
    """The nearest folder at or above `path` that exists."""
    return next(place for place in (path, *path.parents) if place.is_dir())


def network_kind(path: Path) -> str:
    """`NFS`, `Lustre`, `FUSE` and so on; "" on a local file system. `path` need not exist yet."""
    place = existing(path)
    return NETWORK.get(_kind(place.stat().st_dev, str(place)), "")


def is_local(path: Path) -> bool:
    """Whether `path` lies on a file system that is known to belong to one machine alone; unknown ones are not."""
    place = existing(path)
    return _kind(place.stat().st_dev, str(place)) in LOCAL


def refuses_locks(path: Path) -> bool:
    """Whether `flock` fails on the file system of `path`; asked of network file systems only, once for each."""
    place = existing(path)
    device = place.stat().st_dev
    return _kind(device, str(place)) in NETWORK and _refuses(device, str(place))


# The device decides; the path is only how to ask it, so answers are kept by device alone.
_kinds: dict[int, int] = {}
_refusals: dict[int, bool] = {}


def _kind(device: int, place: str) -> int:
    """`f_type` of the file system; 0 where it does not say."""
    if device not in _kinds:
        found = (ctypes.c_long * 32)()  # struct statfs is 120 bytes; f_type comes first
        failed = _libc().statfs(os.fsencode(place), found)
        _kinds[device] = 0 if failed else found[0] & 0xFFFFFFFF
    return _kinds[device]


def _refuses(device: int, place: str) -> bool:
    if device not in _refusals:
        try:
            with tempfile.TemporaryFile(dir=place) as f:
                _refusals[device] = not can_lock(f.fileno())
        except OSError:  # a folder that may only be read: nothing is locked there
            return False
    return _refusals[device]


def can_lock(handle: int) -> bool:
    """Whether the kernel takes a lock on it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
