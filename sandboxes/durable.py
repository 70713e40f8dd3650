"""Makes what a job wrote survive a power cut. Standard library only, as all of the supervisor."""

from __future__ import annotations

import errno
import os
from ctypes import c_int64

from tuneloop.sandboxes.below import below
from tuneloop.sandboxes.tree import libc

OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
HIDDEN = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
START_WRITING = 2  # SYNC_FILE_RANGE_WRITE


def sync_below(folders: list[str]) -> None:
    """Files and directories below `folders` are on disk; clean ones cost next to nothing. Raises OSError."""
    for folder in folders:
        try:
            sync_each(folder)
        except FileNotFoundError:
            continue
        except OSError as e:
            if e.errno not in HIDDEN:
                raise
            flush_all(folder)


def sync_each(folder: str) -> None:
    """One by one, files first begun all together; links lead elsewhere and are left out. Raises OSError."""
    for begin in (True, False):
        for place, entry in below(folder):
            directory = entry.is_dir(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False) or (directory and not begin):
                flush(entry.name, place, begin=begin)
    flush(folder, None)


def flush(name: str, place: int | None, *, begin: bool = False) -> None:
    """Wait until `name` in `place` is on disk, or only `begin` to write it; what is gone needs nothing. Raises OSError."""
    try:
        handle = os.open(name, OPEN, dir_fd=place)
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ELOOP):
            return
        raise
    try:
        if begin:
            libc.sync_file_range(handle, c_int64(0), c_int64(0), START_WRITING)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)


def flush_all(folder: str) -> None:
    """The whole file system: for files that we may not open, or not find."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc.syncfs(handle)
    finally:
        os.close(handle)
