"""Checkpoints on a Postgres server (extra `postgres`), for who keeps runs of many machines in one place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, InvalidRequestError

VARIABLE = "TUNELOOP_CHECKPOINT_URL"
PREFIXES = ("postgresql://", "postgres://")
CONNECT_SECONDS = 10
# Any number that nobody else uses: two runs that start at once make the tables once.
TABLES_LOCK = 7_136_905_221


def public_address(url: str) -> str:
    """The store without user and password, as it is named to people and in files. Raises InvalidRequestError on nonsense."""
    psycopg = load_driver(url)
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as e:
        raise InvalidRequestError(f"{VARIABLE}: {error_line(e)}; right is postgresql://user@host:5432/database") from e
    where = given.get("host") or given.get("hostaddr") or "localhost"
    return f"postgresql://{where}:{given.get('port') or 5432}/{given.get('dbname') or given.get('user') or ''}"


def load_driver(url: str) -> Any:
    """The `psycopg` module. Raises InvalidRequestError with the cure when the extra is missing or another database is meant."""
    if not url.startswith(PREFIXES):
        kind = url.partition(":")[0]
        raise InvalidRequestError(
            f"{VARIABLE}: {kind}: is not supported; right is postgresql://user@host:5432/database, or empty"
        )
    try:
        import langgraph.checkpoint.postgres
        import psycopg
        import psycopg.conninfo
    except ImportError as e:
        raise InvalidRequestError(
            f"{VARIABLE} names Postgres, whose driver is missing ({e}): pip install 'tuneloop[postgres]'"
        ) from e
    del langgraph
    return psycopg


@contextlib.contextmanager
def open_postgres(url: str, serde: SerializerProtocol) -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
    """The saver; a server has its own checksums, so nothing is ever found broken here ("").

    Raises InvalidRequestError when the server does not answer or refuses, InfrastructureError when it breaks later.
    """
    psycopg = load_driver(url)
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    wanted: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "connect_timeout": CONNECT_SECONDS}
    try:
        connection = psycopg.connect(url, row_factory=dict_row, **wanted)
    except psycopg.Error as e:
        raise InvalidRequestError(f"{VARIABLE}: {public_address(url)} cannot be used: {error_line(e)}") from e
    try:
        with connection:
            saver = PostgresSaver(connection, serde=serde)
            with exclusive_setup(connection):
                saver.setup()
            yield saver, ""
    except psycopg.Error as e:
        raise InfrastructureError(f"the checkpoints on {public_address(url)}: {error_line(e)}") from e


@contextlib.contextmanager
def exclusive_setup(connection: Any) -> Iterator[None]:
    """Others wait here. They ask again and again: one that waited inside the server would hold up the making of indexes."""
    while not connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (TABLES_LOCK,)).fetchone()["mine"]:
        pause(0.05)
    yield
    connection.execute("SELECT pg_advisory_unlock(%s)", (TABLES_LOCK,))


def error_line(error: Exception) -> str:
    """Its text, without line ends."""
    return " ".join(str(error).split())
