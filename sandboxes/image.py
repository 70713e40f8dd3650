"""The image of jobs whose programs are this machine's: folders and links to mount on, nothing else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from tuneloop.core.files import digest

PLACE = "/.tuneloop"  # where the first process and its pipes are mounted
FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "usr", PLACE[1:])
LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
REPOSITORY = "tuneloop-host"


def host_image() -> tuple[str, bytes]:
    """Name and content; the same bytes everywhere, so that the name says what is in it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in LINKS:
            path = Path("/", name)
            if path.is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                tar.addfile(entry)
    data = content.getvalue()
    return f"{REPOSITORY}:{digest(data)}", data
