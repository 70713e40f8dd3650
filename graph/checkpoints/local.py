"""A checkpoint on a local disk, for a run whose folder lies on a network; the run's folder gets copies."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from tuneloop.core.files import digest, read_bytes, write_atomic
from tuneloop.core.layout import RunFolder
from tuneloop.graph.checkpoints.sqlite import SQLITE_SUFFIXES


def fetch_local(run: RunFolder, folder: Path, *, stale: bool) -> Path:
    """The file below `folder`; the run's own copy where there is none, or a `stale` one: the run went on elsewhere."""
    file = folder / "checkpoints" / digest(str(run.root.resolve())) / run.checkpoint.name
    if stale or not file.is_file():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_sqlite(file)
        if run.checkpoint.is_file():
            write_atomic(file, read_bytes(run.checkpoint))
    return file


def publish_local(run: RunFolder, file: Path) -> None:
    """Copy the database to the run's folder, whole or not at all; nothing where it is the run's own."""
    if file == run.checkpoint or not file.is_file():
        return
    with contextlib.closing(sqlite3.connect(file)) as connection:
        data = connection.serialize()  # what is still in the write-ahead log included
    remove_sqlite(run.checkpoint, SQLITE_SUFFIXES[1:])  # a journal of an older file would be taken for this one's
    write_atomic(run.checkpoint, data)


def remove_sqlite(file: Path, suffixes: tuple[str, ...] = SQLITE_SUFFIXES) -> None:
    """Remove the file, or what SQLite keeps beside it."""
    for suffix in suffixes:
        file.with_name(file.name + suffix).unlink(missing_ok=True)
