"""Whole files or none: atomic writes, JSON and JSON Lines, hashes."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO


def write_atomic(path: Path, data: str | bytes, mode: int | None = None) -> None:
    """Write `data` so that `path` holds either the old content or all of the new, also after a power cut.

    `mode`: its permissions; None: as any new file gets them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_writes(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _open_part(part) as f:
            if mode is not None:
                os.fchmod(f.fileno(), mode)
            f.write(data.encode() if isinstance(data, str) else data)
            f.flush()
            os.fsync(f.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    fsync_path(path.parent)


def _open_part(part: Path) -> BinaryIO:
    """The part, locked; one that another writer's `remove_partial_writes` took before it was locked is begun again."""
    while True:
        f = part.open("wb")
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(f.fileno()).st_nlink:
            return f
        f.close()


def remove_partial_writes(path: Path) -> None:
    """Remove what writers of `path` left that were killed in the middle: nobody holds its lock any more."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError), part.open("rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def fsync_path(path: Path) -> None:
    """Make a file's content, or the names inside a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_tree(folder: Path) -> None:
    """Make every file below `folder` durable: before a proof says that it is whole, a power cut must not unmake it."""
    for path in (folder, *folder.rglob("*")):
        if path.is_file() or (path.is_dir() and not path.is_symlink()):
            fsync_path(path)


def json_text(value: Any) -> str:
    """Indented, strict JSON (NaN is refused)."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Atomic, as `json_text` has it."""
    write_atomic(path, json_text(value))


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for nesting beyond Python's patience."""
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e


def read_json(path: Path) -> Any:
    """The value in `path`. Raises FileNotFoundError, or ValueError on broken JSON."""
    return parse_json(path.read_text(encoding="utf-8"))


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Atomic JSON Lines."""
    write_atomic(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_lines(path: Path) -> Iterator[Any]:
    """Rows of a JSON Lines file; blank lines are skipped. Raises ValueError naming file and line."""
    with path.open(encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                continue
            try:
                yield parse_json(line)
            except ValueError as e:
                raise ValueError(f"{path.name}:{number}: not JSON: {e}") from e


def append_line(path: Path, line: str) -> None:
    """Append one line in one write. A line that a crash tore is ended first, so that only it is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as f:
        with contextlib.suppress(OSError):  # a disk without locks; with them nobody sees half of another's line
            fcntl.flock(f, fcntl.LOCK_EX)
        size = f.seek(0, 2)
        torn = size > 0 and (f.seek(size - 1), f.read(1))[1] != b"\n"
        f.write((b"\n" if torn else b"") + line.encode() + b"\n")


def digest(*parts: str | bytes) -> str:
    """Short content hash (16 hex digits) over the parts, order and borders included."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "big") + data)
    return h.hexdigest()[:16]


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
