"""Folders as networks give them: FUSE that refuses `flock` and shared memory, and a real NFS server where the kernel has one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PASSTHROUGH = Path(__file__).with_name("passthrough.py")
SECONDS = 20.0


@contextmanager
def network_disk(kind: str, place: Path) -> Iterator[Path]:
    """A folder below `place` on a file system of this kind; the test is skipped, and says why, where there is none."""
    behind, mounted = place / "behind", place / "mounted"
    behind.mkdir(parents=True)
    mounted.mkdir()
    with ExitStack() as held:
        held.enter_context({"FUSE": fuse, "NFS": nfs}[kind](behind, mounted))
        yield mounted


@contextmanager
def fuse(behind: Path, mounted: Path) -> Iterator[None]:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or not shutil.which("fusermount3"):
        pytest.skip("no FUSE: /dev/fuse cannot be opened, or fusermount3 (Debian: fuse3) is missing")
    with subprocess.Popen((sys.executable, PASSTHROUGH, behind, mounted), stderr=subprocess.PIPE, text=True) as server:
        until = time.monotonic() + SECONDS
        while not os.path.ismount(mounted):
            if server.poll() is not None or time.monotonic() > until:
                server.kill()
                pytest.skip(f"no FUSE: {server.stderr.read() if server.stderr else ''}")
            time.sleep(0.02)
        try:
            yield
        finally:
            subprocess.run(("fusermount3", "-u", "-z", mounted), check=True)
            server.terminate()  # a file that is still open would keep it


@contextmanager
def nfs(behind: Path, mounted: Path) -> Iterator[None]:
    kernel = Path("/proc/filesystems").read_text().split()
    if "nfsd" not in kernel or "nfs4" not in kernel or os.geteuid() != 0 or not shutil.which("exportfs"):
        pytest.skip("no NFS: it needs a kernel with nfsd and nfs4, root, and Debian's nfs-kernel-server")
    subprocess.run(("exportfs", "-o", "rw,no_root_squash,insecure,fsid=7413", f"127.0.0.1:{behind}"), check=True)
    try:
        subprocess.run(("rpc.nfsd", "2"), check=True)
        subprocess.run(("mount", "-t", "nfs4", f"127.0.0.1:{behind}", mounted), check=True)
        yield
    finally:
        subprocess.run(("umount", "-l", mounted), check=False)
        subprocess.run(("exportfs", "-u", f"127.0.0.1:{behind}"), check=True)
