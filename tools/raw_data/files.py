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

NO_DATA = ("dataset_info.json", "package.json", "config.json", "manifest.json", "state.json")
NO_TEXT = re.compile(r"(readme|licen[sc]e|notice|changelog|citation|requirements|robots|vocab|merges)\b", re.IGNORECASE)
README_CHARACTERS = 100_000


def record_files(path: Path) -> list[Path]:
    """Files with records below a folder (or the file itself), in name order; hidden files and metadata are left out."""
    if path.is_file():
        return [path] if kind_of(path) else []
    found = (p for p in path.rglob("*") if kind_of(p) and p.is_file() and p.stat().st_size > 0)
    shown = (p for p in found if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts))
    return sorted(p for p in shown if p.name not in NO_DATA and not (kind_of(p) == ".txt" and NO_TEXT.match(p.name)))


def iter_records(path: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Records of a file, at most `limit`. Raises InvalidRequestError naming the file when it cannot be read or holds none."""
    empty = True
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


def read_readme(path: Path) -> str:
    """The data set's README, at most 100,000 characters; "" without one."""
    folder = path if path.is_dir() else path.parent
    found = sorted(p for p in folder.glob("*") if p.name.lower().startswith("readme") and p.is_file())
    return found[0].read_text(encoding="utf-8", errors="replace")[:README_CHARACTERS] if found and path.is_dir() else ""
