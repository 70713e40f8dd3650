"""Whole files or none: atomic writes; bounded reads of JSON, YAML and JSON Lines, checked against their type; hashes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from tuneloop.core.async_bridge import raise_if_interrupted
from tuneloop.core.errors import DamagedFileError

T = TypeVar("T")
LARGEST = 1 << 30  # bytes of a stored file that is read as a whole
PIECE = 1 << 22  # bytes that are hashed between two looks for a pause
LARGEST_LINES = 1 << 40  # of one that is read line by line
LARGEST_LINE = 1 << 28
SURROGATE = re.compile("[\ud800-\udfff]")
HOLLOW = 16  # times the bytes on disk that a file beyond LARGEST may have: filesystems compress, and files have holes
# Errors for a path that is not a regular file.
NO_PLAIN_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG)
DEEPEST = 100  # levels of YAML: its parser recurses
LONGEST_REASON = 200  # characters
SLOW = 5.0  # seconds of waiting for the disk after which a folder may have become another process's


# Folder → what is called before anything below it is written; it raises where the folder is another process's by now.
GUARDS: dict[Path, Callable[[], None]] = {}


def check_guards(path: Path) -> None:
    """Call the guards of all folders above `path`."""
    for folder in path.parents if GUARDS else ():
        if (guard := GUARDS.get(folder)) is not None:
            guard()


def absolute_path(name: str | Path) -> Path:
    """Absolute, with `~` replaced and without `..`: the way through another folder does not exist in a sandbox."""
    return Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100 - links stay: names in a cache are links


def write_atomic(path: Path, data: str | bytes, mode: int | None = None, *, keep: bool = False) -> None:
    """Write `data` so that `path` holds either the old content or all of the new, even after a power failure.

    `mode`: permissions; None: the default of a new file. `keep`: an existing file stays unchanged.
    """
    check_guards(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_writes(path)
    part = path.with_name(f".{path.name}.{threading.get_native_id()}.part")
    try:
        with _open_part(part) as f:
            if mode is not None:
                os.fchmod(f.fileno(), mode)
            f.write(data.encode() if isinstance(data, str) else data)
            f.flush()
            began = time.monotonic()
            os.fsync(f.fileno())
        if time.monotonic() - began > SLOW:
            check_guards(path)
        if keep:
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(part)
        else:
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    fsync_path(path.parent)


def _open_part(part: Path) -> BinaryIO:
    """Open and lock the partial file; retry when another writer removed it before it was locked."""
    while True:
        f = part.open("wb")
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(f.fileno()).st_nlink:
            return f
        f.close()


def remove_partial_writes(path: Path) -> None:
    """Remove partial files of killed writers of `path`: their locks are free."""
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
    """Make every file below `folder` durable, before a proof of completion is written."""
    for path in (folder, *folder.rglob("*")):
        if path.is_file() or (path.is_dir() and not path.is_symlink()):
            fsync_path(path)


def json_text(value: Any) -> str:
    """Indented, strict JSON (NaN is refused); half a character, which no reader takes, is written as �."""
    return SURROGATE.sub("�", json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Atomic, as `json_text` has it."""
    write_atomic(path, json_text(value))


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for nesting beyond Python's recursion limit."""
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e


def damaged(path: Path, why: object, line: int = 0) -> DamagedFileError:
    """The error for a stored file that cannot be used, with the cure for where it lies."""
    run = next((folder.name for folder in path.parents if folder.parent.name == "runs"), "")
    kept = run and path.name != "run.yaml" and "inbox" not in path.parts
    anew = f", or start again with: tuneloop run --repeat {run}" if kept else ""
    reason = " ".join(str(why).split())[:LONGEST_REASON]
    place = f"{path}:{line}" if line else str(path)
    return DamagedFileError(f"{place} is damaged ({reason}): repair it or restore a copy{anew}", reason)


def open_plain(path: Path, most: int = LARGEST, *, follow: bool = True) -> BinaryIO:
    """Open a regular file of at most `most` bytes (apparent size) for reading; a pipe does not block.

    Raises FileNotFoundError and PermissionError; DamagedFileError for everything else that is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as e:
        if e.errno in NO_PLAIN_FILE:
            raise damaged(path, f"no plain file: {e.strerror}") from e
        raise
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_size <= most:
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise damaged(path, f"larger than {most} bytes" if stat.S_ISREG(found.st_mode) else "no plain file")


def read_bytes(path: Path, most: int = LARGEST, *, follow: bool = True) -> bytes:
    """Content of a regular file. Raises as `open_plain`, also when it grows beyond `most` meanwhile."""
    with open_plain(path, most, follow=follow) as f:
        data = f.read(most + 1)
    if len(data) > most:
        raise damaged(path, f"larger than {most} bytes")
    return data


def read_text(path: Path, most: int = LARGEST) -> str:
    """UTF-8 text. Raises as `open_plain`, DamagedFileError for other bytes."""
    try:
        return read_bytes(path, most).decode()
    except UnicodeDecodeError as e:
        raise damaged(path, e) from e


def read_json(path: Path, most: int = LARGEST) -> Any:
    """The value in `path`. Raises FileNotFoundError, or DamagedFileError."""
    text = read_text(path, most)
    try:
        return parse_json(text)
    except ValueError as e:
        raise damaged(path, f"not JSON: {e}") from e


def read_yaml(path: Path, most: int = 1 << 24) -> Any:
    """Plain values of a YAML file. Raises FileNotFoundError, or DamagedFileError."""
    import yaml  # slow, and most files are JSON

    text = read_text(path, most)
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"nested deeper than {DEEPEST} levels")
        return yaml.safe_load(text)
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as e:
        raise damaged(path, f"not YAML: {e}") from e


def read_model(path: Path, kind: type[T], most: int = LARGEST) -> T:
    """The value in `path` as a model, or as another type that pydantic knows. Raises FileNotFoundError, or DamagedFileError."""
    data = read_bytes(path, most)
    try:
        return cast(T, adapter(kind).validate_json(data))
    except ValidationError as e:
        raise mismatch(path, e) from e


def read_field(path: Path, name: str, kind: Any, most: int = LARGEST) -> Any:
    """The entry `name` of the mapping in `path`. Raises FileNotFoundError, or DamagedFileError when it is missing."""
    found = read_model(path, dict[str, Any], most)
    if name not in found:
        raise damaged(path, f"{name!r} is missing")
    return checked(path, found[name], kind, name)


def checked(path: Path, value: Any, kind: type[T], name: str = "") -> T:
    """A value of `path`, the entry `name` of it, as its type. Raises DamagedFileError."""
    try:
        return cast(T, adapter(kind).validate_python(value))
    except ValidationError as e:
        raise mismatch(path, e, name) from e


def mismatch(path: Path, error: ValidationError, name: str = "") -> DamagedFileError:
    """The first thing that is not of its type."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, (*((name,) if name else ()), *first["loc"])))
    return damaged(path, f"{where}: {first['msg']}" if where else first["msg"])


adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # cached validator of a type


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Atomic JSON Lines."""
    write_atomic(path, "".join(SURROGATE.sub("�", json.dumps(row, ensure_ascii=False)) + "\n" for row in rows))


def read_lines(path: Path) -> Iterator[Any]:
    """Rows of a JSON Lines file; blank lines are skipped. Raises DamagedFileError naming file and line."""
    for number, line in enumerate(raw_lines(path), 1):
        if not line.strip():
            continue
        try:
            yield parse_json(line.decode())
        except ValueError as e:
            raise damaged(path, f"not JSON: {e}", number) from e


def raw_lines(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Lines after byte `offset`, with their ends. Raises as `open_plain`, DamagedFileError for one beyond LARGEST_LINE."""
    with open_plain(path, LARGEST_LINES) as f:
        f.seek(offset)
        while line := f.readline(LARGEST_LINE + 1):
            if len(line) > LARGEST_LINE:
                raise damaged(path, f"a line of more than {LARGEST_LINE} bytes")
            yield line


def append_line(path: Path, line: str) -> None:
    """Append one line in one write. A line that a crash tore is ended first, so that only it is lost."""
    check_guards(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as f:
        with contextlib.suppress(OSError):  # a disk without locks; with them no writer sees a partial line of another
            fcntl.flock(f, fcntl.LOCK_EX)
        size = f.seek(0, 2)
        torn = size > 0 and (f.seek(size - 1), f.read(1))[1] != b"\n"
        data = (b"\n" if torn else b"") + line.encode() + b"\n"
        if f.write(data) != len(data):  # the disk is full: no part of a line stays
            f.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def digest(*parts: str | bytes) -> str:
    """Short content hash (16 hex digits) over the parts, order and borders included."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "big") + data)
    return h.hexdigest()[:16]


def digest_file(path: Path) -> str:
    """SHA-256 of a regular file's bytes, read in pieces. Raises PausedError between two of them when the work is to stop.

    Raises as `open_plain`, DamagedFileError also for a large file that is mostly a hole: reading it could take days.
    """
    found = hashlib.sha256()
    with open_plain(path, LARGEST_LINES) as f:
        seen = os.fstat(f.fileno())
        if seen.st_size > max(LARGEST, HOLLOW * seen.st_blocks * 512):
            raise damaged(path, f"{seen.st_size} bytes, of which {seen.st_blocks * 512} are stored")
        while piece := f.read(PIECE):
            found.update(piece)
            raise_if_interrupted()
    return found.hexdigest()
