"""Files of a raw data set that hold records, and the records in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.records import UNREADABLE, kind_of
from tuneloop.core.records import records as read_records
from tuneloop.tools.raw_data import reader

NO_DATA = ("dataset_info.json", "package.json", "config.json", "manifest.json", "state.json")
NO_TEXT = re.compile(r"(readme|licen[sc]e|notice|changelog|citation|requirements|robots|vocab|merges)\b", re.IGNORECASE)
README_CHARACTERS = 100_000


def record_files(path: Path) -> list[Path]:
    """Files with records below a folder (or the file itself), in name order; hidden files and metadata are left out.

    Links that lead out of the folder are left out too: who reads it sees nothing but the folder.
    """
    if path.is_file():
        return [path] if kind_of(path) else []
    whole = path.resolve()
    found = (p for p in path.rglob("*") if kind_of(p) and is_inside(p, whole) and p.is_file() and p.stat().st_size > 0)
    shown = (p for p in found if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts))
    return sorted(p for p in shown if p.name not in NO_DATA and not (kind_of(p) == ".txt" and NO_TEXT.match(p.name)))


def is_inside(path: Path, whole: Path) -> bool:
    """Whether what a path leads to lies in the resolved folder `whole`."""
    try:
        return not path.is_symlink() or path.resolve().is_relative_to(whole)
    except (OSError, RuntimeError):  # a circle of links
        return False


def iter_records(path: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Records of a file, at most `limit`. Raises InvalidRequestError naming the file when it cannot be read or holds none."""
    empty = True
    if reader.on_open is not None:
        reader.on_open(path)
    try:
        for record in itertools.islice(read_records(path), limit):
            empty = False
            yield record
    except UNREADABLE as e:
        raise InvalidRequestError(
            f"{path}: cannot be read as {kind_of(path)[1:]} ({e}); right is one record an object or row"
        ) from e
    if empty and limit != 0:
        raise InvalidRequestError(f"{path}: holds no records; right is a list of objects or a table with a header")


def readme_file(path: Path) -> Path | None:
    """The data set's README; None without one."""
    if not path.is_dir():
        return None
    whole = path.resolve()
    found = (p for p in path.glob("*") if p.name.lower().startswith("readme") and is_inside(p, whole) and p.is_file())
    return min(found, default=None)


def read_readme(path: Path) -> str:
    """The data set's README, at most 100,000 characters; "" without one."""
    found = readme_file(path)
    if found is None:
        return ""
    with found.open(encoding="utf-8", errors="replace") as f:
        return f.read(README_CHARACTERS)
