"""Disks of a test's own: one in memory whose size changes at will, and a file with ext4 that loses what was not synced."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CURE = "this test mounts a disk of its own: run it as root (with CAP_SYS_ADMIN) where loop devices are"
# administrators' programs are not on everybody's PATH
MKFS = shutil.which("mkfs.ext4", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or "mkfs.ext4"
BIG = 4 << 30
IMAGE_MB = 3000


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"{CURE}: {done.stderr.strip()}"


def unmount(folder: Path) -> None:
    """At once; the mount of a sandbox that just ended may hold it for a moment."""
    for _ in range(50):
        done = subprocess.run(["umount", str(folder)], capture_output=True, text=True)
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(done.stderr)


@contextmanager
def memory_disk(folder: Path) -> Iterator[Path]:
    """A disk that looks large; see `fill` and `free`."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={BIG}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, left: int = 0) -> None:
    """Only `left` bytes are free from now on."""
    for _ in range(20):
        size = max(shutil.disk_usage(folder).used + left, 4096) + 4096 & ~4095
        try:
            return mount("-o", f"remount,size={size}", str(folder))
        except AssertionError:  # what writes to it was faster, and no disk gets smaller than what is on it
            if shutil.disk_usage(folder).used <= size:
                raise
    raise AssertionError(f"{folder} grew faster than it could be filled")


def free(folder: Path) -> None:
    """The disk is large again."""
    mount("-o", f"remount,size={BIG}", str(folder))


class LosingDisk:
    """ext4 in a file; what is not synced stays in memory, so that a copy of the file is what a power cut leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.image = folder, folder.with_name("disk.ext4")
        folder.mkdir()
        with self.image.open("wb") as f:
            f.truncate(IMAGE_MB << 20)
        made = subprocess.run([MKFS, "-q", "-F", "-E", "lazy_itable_init=1", str(self.image)], text=True)
        assert made.returncode == 0, CURE
        self.mount()

    def mount(self) -> None:
        # noauto_da_alloc: nothing is written early only because it is renamed; commit: the journal waits for a sync.
        mount("-o", "loop,commit=600,noauto_da_alloc", str(self.image), str(self.folder))

    def snapshot(self) -> Path:
        """What is on the medium now. Everybody who writes has to stand still; a copy that a write came into is made again."""
        copy = self.image.with_name("snapshot.ext4")
        while True:
            before = self.image.stat().st_mtime_ns
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", str(self.image), str(copy)], check=True)
            if self.image.stat().st_mtime_ns == before:
                return copy

    def cut(self, snapshot: Path) -> None:
        """After the power cut: the medium as it was, mounted again at the same place."""
        unmount(self.folder)
        snapshot.replace(self.image)
        self.mount()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)])
