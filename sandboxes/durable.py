"""Makes what a job wrote survive a power cut. Standard library only, as all of the supervisor."""

from __future__ import annotations

import os
from ctypes import c_int64

from tuneloop.sandboxes.tree import libc

OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
START_WRITING = 2  # SYNC_FILE_RANGE_WRITE


def sync_below(folders: list[str]) -> None:
    """Files and directories below `folders` are on disk; clean ones cost next to nothing. Raises OSError."""
    for folder in folders:
        files, directories = found_below(folder)
        for path in files:
            flush(path, folder, begin=True)
        for path in (*files, *reversed(directories)):
            flush(path, folder)


def found_below(folder: str) -> tuple[list[str], list[str]]:
    """Regular files, and directories from the top down; links lead elsewhere and are left out."""
    files, directories = [], [folder]
    for directory in directories:
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(entry.path)
        except (FileNotFoundError, PermissionError):
            continue
    return files, directories


def flush(path: str, folder: str, *, begin: bool = False) -> None:
    """Wait until `path` is on disk, or only `begin` to write it; what is gone needs nothing. Raises OSError."""
    try:
        handle = os.open(path, OPEN)
    except FileNotFoundError:
        return None
    except PermissionError:
        return flush_all(folder)
    try:
        if begin:
            libc.sync_file_range(handle, c_int64(0), c_int64(0), START_WRITING)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)


def flush_all(folder: str) -> None:
    """The whole file system: for files that we may not open."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc.syncfs(handle)
    finally:
        os.close(handle)
