"""How much lies where, whether there is room for more, and removal that a kill cannot leave looking whole."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from tuneloop.core.errors import WorldError
from tuneloop.core.wording import size

TRASH = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def bytes_below(path: Path) -> int:
    """Bytes on disk of a file, or of everything below a folder; links count as themselves and are never followed."""
    try:
        own = path.lstat()
    except FileNotFoundError:
        return 0
    if not path.is_dir() or path.is_symlink():
        return own.st_blocks * 512
    with os.scandir(path) as entries:
        return own.st_blocks * 512 + sum(bytes_below(Path(entry.path)) for entry in entries)


def remove(path: Path) -> None:
    """Away at once, then piece by piece: after a kill what is left is called `.<name>.<pid>.part` and means nothing."""
    if not os.path.lexists(path):
        return
    away = path if is_trash(path) else path.with_name(f".{path.name}.{os.getpid()}{TRASH}")
    if away != path:
        _rename(path, away)
    if away.is_dir() and not away.is_symlink():
        shutil.rmtree(away)
    else:
        away.unlink()


def _rename(path: Path, away: Path) -> None:
    if away.is_dir() and not away.is_symlink():
        shutil.rmtree(away)
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
    """Before `need` bytes are written below `place`. Raises WorldError when they would not fit."""
    there = next(p for p in (place, *place.parents) if p.exists())
    free = shutil.disk_usage(there).free
    if free < need:
        raise WorldError(
            f"{what} needs {size(need)} and {size(free)} are free in {there}: free some (`tuneloop clean` shows what "
            "may go), then `tuneloop resume`"
        )
