"""Look through a folder without following links: what lives in it, what was begun and never finished."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.locks import is_locked
from tuneloop.tools.disk import is_trash

STALE_SECONDS = 60.0


@dataclass(frozen=True)
class Inside:
    """`alive`: a job, worker or builder holds a lock in it; `trash`: begun and never finished, long enough ago."""

    alive: bool
    trash: tuple[Path, ...]


def look(root: Path, ignore: Path | None = None) -> Inside:
    """Every lock and every unfinished thing below `root`; the lock `ignore` is our own."""
    trash: list[Path] = []
    for here, folders, files in walk(root):
        for name in [name for name in (*folders, *files) if is_trash(Path(name))]:
            trash.append(here / name)
            if name in folders:
                folders.remove(name)
        locks = (here / name for name in files if name == "lock" or name.endswith(".lock"))
        if any(lock != ignore and is_locked(lock) for lock in locks):
            return Inside(True, ())
    return Inside(False, tuple(sorted(path for path in trash if stale(path))))


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As `os.walk`, which gives up where a job left folders in folders without end; too long a path holds nothing of ours."""
    waiting = [root]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                found = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        folders = [name for name, folder in found.items() if folder]
        yield here, folders, [name for name, folder in found.items() if not folder]
        waiting += [here / name for name in folders]


def stale(path: Path) -> bool:
    """Nobody writes it any more: nothing takes a minute from its last byte to its real name."""
    try:
        return time.time() - path.lstat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def folders(place: Path) -> list[Path]:
    """Real folders in `place`, which must be real itself."""
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(p for p in place.iterdir() if p.is_dir() and not p.is_symlink())
