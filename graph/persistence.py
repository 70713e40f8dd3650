"""Checkpoints of a run: SQLite in the run's folder, written before the next node starts, types named one by one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from tuneloop.core.layout import RunFolder

TYPES = (
    ("tuneloop.graph.state", "State"),
    ("tuneloop.graph.state", "Trouble"),
    ("tuneloop.core.run", "RunSpec"),
)


@contextlib.contextmanager
def open_checkpointer(run: RunFolder) -> Iterator[SqliteSaver]:
    """The run's saver; closed at the end."""
    connection = sqlite3.connect(run.checkpoint, check_same_thread=False)
    try:
        yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=list(TYPES)))
    finally:
        connection.close()
