"""A job's log: keeps head and tail, cuts the middle and says so. Standard library only, as all of the supervisor."""

from __future__ import annotations

import errno
import os
from ctypes import c_int64

from tuneloop.sandboxes.process_tree import libc
from tuneloop.sandboxes.safe_walk import walk_below

# Makes what a job wrote survive a power cut. Standard library only, as all of the supervisor.

OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
HIDDEN = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
START_WRITING = 2  # SYNC_FILE_RANGE_WRITE


def fsync_below(folders: list[str]) -> None:
    """Files and directories below `folders` are on disk; clean ones cost next to nothing. Raises OSError."""
    for folder in folders:
        try:
            fsync_each(folder)
        except FileNotFoundError:
            continue
        except OSError as e:
            if e.errno not in HIDDEN:
                raise
            fsync_filesystem(folder)


def fsync_each(folder: str) -> None:
    """One by one, files first begun all together; links lead elsewhere and are left out. Raises OSError."""
    for begin in (True, False):
        for place, entry in walk_below(folder):
            directory = entry.is_dir(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False) or (directory and not begin):
                fsync_file(entry.name, place, begin=begin)
    fsync_file(folder, None)


def fsync_file(name: str, place: int | None, *, begin: bool = False) -> None:
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


def fsync_filesystem(folder: str) -> None:
    """The whole file system: for files that we may not open, or not find."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc.syncfs(handle)
    finally:
        os.close(handle)


# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH105, PTH123, SIM105


class BoundedLog:
    """A file that keeps its head and its tail: at most about `limit` bytes, and a line that says how much was cut."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, max(limit, 1024)
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115
        self.size, self.cut = os.fstat(self.file.fileno()).st_size, 0
        self.mark = 0

    def write(self, data: bytes) -> None:
        """Append; a full disk costs log lines, never the job."""
        try:
            self.size += self.file.write(data)
            if self.size > self.limit:
                self.cut_middle()
        except OSError:
            self.cut += len(data)

    def cut_middle(self) -> None:
        """Rewrite as head, mark and tail; readers see the old or the new file."""
        head, tail = self.limit // 2, self.limit // 4
        with open(self.path, "rb") as f:
            first = f.read(head)
            f.seek(max(self.size - tail, head))
            last = f.read()
        self.cut += self.size - head - len(last) - self.mark
        mark = b"\n[... %d bytes cut ...]\n" % self.cut
        self.mark = len(mark)
        part = self.path + ".part"
        with open(part, "wb") as f:
            f.write(first + mark + last)
        os.replace(part, self.path)
        self.file.close()
        self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        self.size = head + len(mark) + len(last)

    def close(self) -> None:
        """On disk before `exit.json` is; a full disk costs log lines, never the job."""
        try:
            os.fsync(self.file.fileno())
        except OSError:
            pass
        self.file.close()
