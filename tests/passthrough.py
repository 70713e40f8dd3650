"""Mounts a folder through FUSE as a network would: `flock` and memory shared between processes are refused."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import mfusepy  # type: ignore[import-untyped]

UTIME_NOW = (1 << 30) - 1  # nanoseconds that stand for the time of the server


class Passthrough(mfusepy.Operations):  # type: ignore[misc]
    """Every call goes to the same path below `root`."""

    use_ns = True

    def __init__(self, root: str) -> None:
        self.root = root

    def access(self, path: str, amode: int) -> int:
        if not os.access(path, amode):
            raise mfusepy.FuseOSError(errno.EACCES)
        return 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.lstat(path)
        names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino", "st_blocks")
        times = {f"st_{t}time": getattr(found, f"st_{t}time_ns") for t in "amc"}
        return {**{name: getattr(found, name) for name in names}, **times}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(path)]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(path)
        names = ["bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail", "namemax"]
        return {f"f_{name}": getattr(found, f"f_{name}") for name in names}

    def open(self, path: str, flags: Any) -> int:
        flags.fh, flags.direct_io = os.open(path, flags.flags & ~os.O_CREAT), True  # refuses shared memory
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        fi.fh, fi.direct_io = os.open(path, os.O_RDWR | os.O_CREAT, mode), True
        return 0

    def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
        return os.pread(fh.fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: Any) -> int:
        return os.pwrite(fh.fh, data, offset)

    def truncate(self, path: str, length: int, fh: Any = None) -> int:
        os.truncate(path, length)
        return 0

    def release(self, path: str, fh: Any) -> int:
        os.close(fh.fh)
        return 0

    def fsync(self, path: str, datasync: int, fh: Any) -> int:
        os.fsync(fh.fh)
        return 0

    def flush(self, path: str, fh: Any) -> int:
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: Any) -> int:
        return 0

    def lock(self, path: str, fh: Any, cmd: int, lock: Any) -> int:
        raise mfusepy.FuseOSError(errno.ENOLCK)

    def flock(self, path: str, fh: Any, op: int) -> int:
        raise mfusepy.FuseOSError(errno.ENOLCK)

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(path, mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.lchown(path, uid, gid)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(path, mode)
        return 0

    def mknod(self, path: str, mode: int, dev: int) -> int:
        os.mknod(path, mode, dev)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(path)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(path)
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(old, self.root + new)
        return 0

    def link(self, target: str, source: str) -> int:
        os.link(self.root + source, target)
        return 0

    def symlink(self, target: str, source: str) -> int:
        os.symlink(source, target)
        return 0

    def readlink(self, path: str) -> str:
        return os.readlink(path)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        if times is None or UTIME_NOW in times:
            os.utime(path, follow_symlinks=False)
        else:
            os.utime(path, ns=times, follow_symlinks=False)
        return 0


def below_root(method: Any) -> Any:
    """The method, given the path below `root`."""
    return lambda self, path, *args: method(self, self.root + path, *args)


for name, method in list(vars(Passthrough).items()):
    if callable(method) and not name.startswith("_"):
        setattr(Passthrough, name, below_root(method))


if __name__ == "__main__":
    mfusepy.FUSE(
        Passthrough(sys.argv[1]),
        sys.argv[2],
        foreground=True,
        raw_fi=True,
        nothreads=False,
        allow_other=os.geteuid() == 0,
        default_permissions=True,
    )
