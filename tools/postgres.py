"""Postgres servers: their addresses, their driver (extra `postgres`), and what they say when something is wrong."""

from __future__ import annotations

import importlib
import re
from typing import Any

from tuneloop.core.errors import InvalidRequestError

PREFIXES = ("postgresql://", "postgres://")
RIGHT = "right is postgresql://user@host:5432/database"
NONSENSE = f"is no address; percent-encode special characters of the password; {RIGHT}"
CONNECT_SECONDS = 10


def public_address(url: str, variable: str) -> str:
    """The server without user and password, as it is named to people and in files.

    Raises InvalidRequestError on nonsense, of which nothing is repeated: a password may stand anywhere in it.
    """
    psycopg = load_driver(url, variable)
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, ValueError):  # libpq's own words quote it
        raise InvalidRequestError(f"{variable} {NONSENSE}") from None
    where, name = given.get("host") or given.get("hostaddr") or "localhost", given.get("dbname") or ""
    port = str(given.get("port") or 5432)
    folder = where.startswith("/") and "@" not in where  # of a socket
    if not re.fullmatch(r"[0-9,]+", port) or re.search("[@/]", name) or (re.search("[@/]", where) and not folder):
        raise InvalidRequestError(f"{variable} {NONSENSE}")
    return f"postgresql://{where}:{port}/{name or given.get('user') or ''}"


def load_driver(url: str, variable: str, *modules: str) -> Any:
    """The `psycopg` module, when it and `modules` are there. Raises InvalidRequestError with the cure, or for another database."""
    if not url.startswith(PREFIXES):
        scheme = re.match(r"[a-z][a-z0-9+.-]{0,30}:(?=//)", url)
        raise InvalidRequestError(f"{variable}: {scheme[0] if scheme else 'this'} is not supported; {RIGHT}, or empty")
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
