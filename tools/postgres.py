"""Postgres servers: their addresses, their driver (extra `postgres`), and what they say when something is wrong."""

from __future__ import annotations

import importlib
from typing import Any

from tuneloop.core.errors import InvalidRequestError

PREFIXES = ("postgresql://", "postgres://")
RIGHT = "right is postgresql://user@host:5432/database"
CONNECT_SECONDS = 10


def public_address(url: str, variable: str) -> str:
    """The server without user and password, as it is named to people and in files. Raises InvalidRequestError on nonsense."""
    psycopg = load_driver(url, variable)
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as e:
        raise InvalidRequestError(f"{variable}: {error_line(e)}; {RIGHT}") from e
    where = given.get("host") or given.get("hostaddr") or "localhost"
    return f"postgresql://{where}:{given.get('port') or 5432}/{given.get('dbname') or given.get('user') or ''}"


def load_driver(url: str, variable: str, *modules: str) -> Any:
    """The `psycopg` module, when it and `modules` are there. Raises InvalidRequestError with the cure, or for another database."""
    if not url.startswith(PREFIXES):
        raise InvalidRequestError(f"{variable}: {url.partition(':')[0]}: is not supported; {RIGHT}, or empty")
    try:
        for module in ("psycopg.conninfo", *modules):
            importlib.import_module(module)
        return importlib.import_module("psycopg")
    except ImportError as e:
        raise InvalidRequestError(
            f"{variable} names Postgres, whose driver is missing ({e}): pip install 'tuneloop[postgres]'"
        ) from e


def error_line(error: Exception) -> str:
    """Its text, without line ends."""
    return " ".join(str(error).split())
