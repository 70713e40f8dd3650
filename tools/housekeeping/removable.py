"""Something that may go, and its removal while its owner's lock is held."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tuneloop.core.job import TICKET
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import acquire, is_locked, lock_file
from tuneloop.core.run_lease import find_holder
from tuneloop.tools.housekeeping.disk import bytes_below, is_trash, remove_path

# Look through a folder without following links: what lives in it, what was begun and never finished.

STALE_SECONDS = 60.0


@dataclass(frozen=True)
class FolderState:
    """`alive`: a job, worker or builder holds a lock in it; `trash`: begun and never finished, long enough ago."""

    alive: bool
    trash: tuple[Path, ...]


def inspect_folder(root: Path, ignore: Path | None = None) -> FolderState:
    """Every lock and every unfinished thing below `root`; the lock `ignore` is our own."""
    trash: list[Path] = []
    for here, folders, files in walk_folder(root):
        for name in [name for name in (*folders, *files) if is_trash(Path(name))]:
            trash.append(here / name)
            if name in folders:
                folders.remove(name)
        locks = (here / name for name in files if name == "lock" or name.endswith(".lock"))
        if any(lock != ignore and is_locked(lock) for lock in locks):
            return FolderState(True, ())
        if TICKET in files and "exit.json" not in files:  # a cluster may still have the job
            return FolderState(True, ())
    return FolderState(False, tuple(sorted(path for path in trash if is_stale(path))))


def walk_folder(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
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


def is_stale(path: Path) -> bool:
    """Nobody writes it any more: nothing takes a minute from its last byte to its real name."""
    try:
        return time.time() - path.lstat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def real_folders(place: Path) -> list[Path]:
    """Real folders in `place`, which must be real itself."""
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(p for p in place.iterdir() if p.is_dir() and not p.is_symlink())


Kind = Literal["leftovers", "caches", "scratch", "models", "runs", "evaluations", "engines"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Removable:
    """`paths` go while `locks` are held; `act`, where given, removes them instead; `run`: no job of it may live."""

    kind: Kind
    what: str
    paths: tuple[Path, ...]
    why: str
    locks: tuple[Path, ...] = ()
    run: RunFolder | None = None
    act: Callable[[], None] | None = None

    @property
    def bytes(self) -> int:
        """On disk, now."""
        return sum(map(bytes_below, self.paths))


@dataclass(frozen=True)
class CleanupRequest:
    """What was asked for: one run, runs and evaluations untouched for `older` seconds, engines that nobody needs."""

    run: RunFolder | None = None
    older: float | None = None
    engines: bool = False


def remove_found(find: Removable) -> int:
    """Remove it and return the bytes freed; 0 when its owner came to life meanwhile."""
    with ExitStack() as held:
        if not all(held.enter_context(try_sole_lock(lock)) for lock in find.locks):
            return 0
        run = find.run
        if run is not None and (
            find_holder(run.root, elsewhere=True) or inspect_folder(run.root, ignore=run.lock).alive
        ):
            return 0
        before = find.bytes
        if find.act is not None:
            find.act()
        else:
            for path in find.paths:
                remove_path(path)
        return before - find.bytes


@contextmanager
def try_sole_lock(lock: Path) -> Iterator[bool]:
    """Whether the lock could be taken, then held; a lock file that is not there has no owner and is not made."""
    try:
        handle = os.open(lock_file(lock), os.O_RDWR)
    except FileNotFoundError:
        yield True
        return
    try:
        yield acquire(handle)
    finally:
        os.close(handle)
