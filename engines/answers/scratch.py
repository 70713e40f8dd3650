"""A folder of its own for each answer: made in one place, watched while the answer runs, removed whatever lies in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

BYTES, ENTRIES, THREADS = 256 << 20, 10_000, 64  # of one answer
LOOK, WALK = 0.02, 0.25  # seconds between two looks at its threads, at its folder


def make(base: Path) -> Path:
    """A new folder below `base`, which is mended when something happened to it. Raises OSError."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        return Path(tempfile.mkdtemp(dir=base))
    if os.path.lexists(base):
        if base.is_symlink() or not base.is_dir():
            base.unlink()
        else:
            base.chmod(0o700)
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=base))


class Watch:
    """What an answer must not do and no limit of the kernel's keeps it from."""

    def __init__(self, place: Path, started: Iterable[subprocess.Popen[bytes]], now: float) -> None:
        self.place, self.started, self.next_walk = place, tuple(started), now + WALK

    def exceeded(self, now: float) -> str:
        """Why it is ended, "" for nothing."""
        if any(threads(p.pid) > THREADS for p in self.started):
            return "made too many threads"
        if now < self.next_walk:
            return ""
        self.next_walk = now + WALK
        return "wrote too much" if wrote_too_much(self.place) else ""


def threads(pid: int) -> int:
    """Of a process; 0 where it is gone."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0


def wrote_too_much(place: Path) -> bool:
    """More than BYTES, by what is stored or by what a reader would get, or more than ENTRIES, or what nobody can look at."""
    size = count = 0
    folders = [str(place)]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    facts = entry.stat(follow_symlinks=False)
                    size, count = size + max(facts.st_blocks * 512, facts.st_size), count + 1
                    if size > BYTES or count > ENTRIES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:  # closed by the answer itself, or nested beyond any path's length
            return True
    return False


def remove(place: Path) -> None:
    """Everything in it, and it: folders are moved up before they are emptied, so that no depth is too deep."""
    pending, number = [place], 0
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
            with os.scandir(folder) as found:
                entries = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in found]
            for entry, is_folder in entries:
                if not is_folder:
                    entry.unlink()
                    continue
                entry.chmod(0o700)
                number += 1
                pending.append(entry.rename(place.parent / f"{place.name}.{number}"))
            folder.rmdir()
