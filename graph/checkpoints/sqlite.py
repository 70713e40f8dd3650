"""Checkpoints in an SQLite file: looked at before it is believed, moved aside when it is damaged, kept small."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.file_systems import network_kind

# A file of one small thread; another program's huge one would be looked at no longer than this many problems.
CHECK = "PRAGMA quick_check(1)"
# What SQLite says when the file is well and the world is not.
WORLD = ("locked", "busy", "full", "readonly", "read-only", "unable to open", "disk I/O")
SQLITE_SUFFIXES = ("", "-wal", "-shm")


class SmallSaver(SqliteSaver):
    """The saver of langgraph, and what it lacks: old checkpoints can be dropped."""

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop all but the newest checkpoint of each thread, in one transaction."""
        if strategy != "keep_latest":
            raise ValueError(f"{strategy!r}; right is 'keep_latest': a run needs nothing else")
        newest = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = :thread)"
        with self.cursor() as cursor:
            for thread in thread_ids:
                for table in ("writes", "checkpoints"):
                    given = {"thread": thread}
                    cursor.execute(f"DELETE FROM {table} WHERE thread_id = :thread AND checkpoint_id < {newest}", given)  # noqa: S608
        with self.lock:  # threads of other experiments write, too
            self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def connect(file: Path) -> sqlite3.Connection:
    """A connection that any thread may use.

    On a network file system it needs no memory shared between processes and no locks: it has a rollback journal instead of WAL,
    and the run's lock keeps others away.
    """
    if not network_kind(file.parent):
        return sqlite3.connect(file, check_same_thread=False)
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?vfs=unix-none", uri=True, check_same_thread=False)
    try:
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=DELETE", "locking_mode=NORMAL"):
            connection.execute(f"PRAGMA {pragma}").fetchone()  # a file that was in WAL elsewhere is changed, too
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def open_sqlite(file: Path, thread: str, serde: SerializerProtocol) -> Iterator[tuple[SmallSaver, str]]:
    """The saver, and why an older file was not believed ("": it was, or there was none).

    Raises InfrastructureError when the disk is full or read-only, and when the file is found damaged later: the next session
    moves it aside.
    """
    broken = find_damage(file, thread, serde)
    if broken:
        broken = f"{broken}; kept as {move_aside(file).name}"
    try:
        with contextlib.closing(connect(file)) as connection:
            yield SmallSaver(connection, serde=serde), broken
    except sqlite3.Error as e:
        raise InfrastructureError(f"{file}: {e}") from e


def find_damage(file: Path, thread: str, serde: SerializerProtocol) -> str:
    """What is wrong with the file: its structure, or the newest checkpoint in it. "" when nothing is.

    Raises InfrastructureError when that cannot be told.
    """
    if not file.is_file():
        return ""
    try:
        with contextlib.closing(connect(file)) as connection:
            (verdict,) = connection.execute(CHECK).fetchone()
            if verdict != "ok":
                return f"the checkpoint is damaged ({' '.join(str(verdict).split())[:120]})"
            SqliteSaver(connection, serde=serde).get_tuple({"configurable": {"thread_id": thread}})
    except sqlite3.Error as e:
        if any(word in str(e) for word in WORLD):
            raise InfrastructureError(f"{file}: {e}") from e
        return f"the checkpoint is damaged ({e})"
    except (ValueError, TypeError, LookupError) as e:
        return f"the checkpoint is damaged ({' '.join(str(e).split())[:120]})"
    return ""


def move_aside(file: Path) -> Path:
    """Rename the file and what SQLite keeps beside it; returns its new place."""
    number = next(n for n in range(1, 1 << 20) if not file.with_name(f"{file.name}.broken-{n}").exists())
    aside = file.with_name(f"{file.name}.broken-{number}")
    for ending in reversed(SQLITE_SUFFIXES):
        part = file.with_name(file.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    return aside
