"""How much lies where, whether there is room for more, and removal that a kill cannot leave looking whole."""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import os
import shutil
import stat
from pathlib import Path

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.formatting import format_size
from tuneloop.sandboxes.safe_walk import walk_below

TRASH = ".part"
UNWIELDY = (errno.ENAMETOOLONG, errno.EMFILE, errno.EACCES)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def bytes_below(path: Path) -> int:
    """Bytes on disk of a file, or of everything below a folder; links count as themselves and are never followed."""
    try:
        own = path.lstat()
    except FileNotFoundError:
        return 0
    total = own.st_blocks * 512
    if stat.S_ISDIR(own.st_mode):
        with contextlib.suppress(OSError):  # what nobody can look into is not counted
            for _, entry in walk_below(str(path)):
                total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def remove_path(path: Path) -> None:
    """Away at once, then piece by piece: after a kill what is left is called `.<name>.<pid>.part` and means nothing."""
    if not os.path.lexists(path):
        return
    away = path if is_trash(path) else path.with_name(f".{path.name}.{os.getpid()}{TRASH}")
    if away != path:
        _rename(path, away)
    if away.is_dir() and not away.is_symlink():
        remove_deep_folder(away)
    else:
        away.unlink()


def unfinished_removals(path: Path) -> list[Path]:
    """What those who were killed while they removed `path` left beside it."""
    return list(path.parent.glob(f".{glob.escape(path.name)}.*{TRASH}"))


def remove_deep_folder(folder: Path) -> None:
    """Away with a folder, however deep a job made it, and closed to us or not. Raises OSError."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError) as e:
        if isinstance(e, OSError) and e.errno not in UNWIELDY:
            raise
        flatten_folder(folder)
        shutil.rmtree(folder)


def flatten_folder(folder: Path) -> None:
    """Move every folder below `folder` directly into it: no path is long any more. Raises OSError."""
    names = (folder / f".flat.{n}" for n in itertools.count())
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        place.chmod(0o700)
        with os.scandir(place) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for path in inner:
            Path(path).chmod(0o700)  # else it cannot be moved
            flat = next(name for name in names if not os.path.lexists(name))
            waiting.append(Path(path).rename(flat))


def _rename(path: Path, away: Path) -> None:
    if away.is_dir() and not away.is_symlink():
        remove_deep_folder(away)
    try:
        path.rename(away)
    except OSError as e:
        if e.errno != errno.EXDEV:  # a folder of a container image's lower layer cannot be renamed, only copied
            raise
        away.mkdir()
        for child in path.iterdir():
            _rename(child, away / child.name)
        path.rmdir()


def is_trash(path: Path) -> bool:
    """Whether the name says: begun and not finished, or removed and not finished."""
    return path.name.startswith(".") and path.name.endswith(TRASH)


def check_room(place: Path, need: int, what: str) -> None:
    """Before `need` bytes are written below `place`. Raises InfrastructureError when they would not fit."""
    there = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(there).free
    if free < need:
        raise InfrastructureError(
            f"{what} needs {format_size(need)} and {format_size(free)} are free in {there}: free some (`tuneloop clean` shows what "
            "may go), then `tuneloop resume`"
        )
