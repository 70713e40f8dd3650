"""Checkpoints on a Postgres server (extra `postgres`), for who keeps runs of many machines in one place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.tools.postgres import CONNECT_SECONDS, error_line, load_driver, public_address

VARIABLE = "TUNELOOP_CHECKPOINT_URL"
# Any number that nobody else uses: two runs that start at once make the tables once.
TABLES_LOCK = 7_136_905_221


@contextlib.contextmanager
def open_postgres(url: str, serde: SerializerProtocol) -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
    """The saver; a server has its own checksums, so nothing is ever found broken here ("").

    Raises InvalidRequestError when the server does not answer or refuses, InfrastructureError when it breaks later.
    """
    psycopg = load_driver(url, VARIABLE, "langgraph.checkpoint.postgres")
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    wanted: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "connect_timeout": CONNECT_SECONDS}
    try:
        connection = psycopg.connect(url, row_factory=dict_row, **wanted)
    except psycopg.Error as e:
        raise InvalidRequestError(f"{VARIABLE}: {public_address(url, VARIABLE)} cannot be used: {error_line(e)}") from e
    try:
        with connection:
            saver = PostgresSaver(connection, serde=serde)
            with exclusive_setup(connection):
                saver.setup()
            yield saver, ""
    except psycopg.Error as e:
        raise InfrastructureError(f"the checkpoints on {public_address(url, VARIABLE)}: {error_line(e)}") from e


@contextlib.contextmanager
def exclusive_setup(connection: Any) -> Iterator[None]:
    """Others wait here. They ask again and again: one that waited inside the server would hold up the making of indexes."""
    while not connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (TABLES_LOCK,)).fetchone()["mine"]:
        pause(0.05)
    yield
    connection.execute("SELECT pg_advisory_unlock(%s)", (TABLES_LOCK,))
