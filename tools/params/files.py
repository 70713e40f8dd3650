"""Files that a config names, read once until they change: JSON, and the JSON that stands in the config itself."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.files import parse_json


class UnreadableError(ValueError):
    """The text says why."""


def stamp(path: Path) -> tuple[int, int]:
    """Size and time of the last change; what was read of a file holds while they do. Raises OSError."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def read_object(path: Path) -> Any:
    """What a JSON file holds. Raises UnreadableError."""
    try:
        return _read(path, stamp(path))
    except OSError as e:
        raise UnreadableError(f"{path} cannot be read ({e.strerror})") from e


@lru_cache(maxsize=64)
def _read(path: Path, _stamp: tuple[int, int]) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as e:
        raise UnreadableError(f"{path} is no JSON ({e})") from e


def json_value(value: Any, here: Path) -> Any:
    """A mapping, JSON text, or the path of a JSON file, as the engine takes them; None where it cannot be read."""
    if not isinstance(value, str) or not value:
        return value
    try:
        return parse_json(value) if value.startswith("{") else read_object(here / Path(value).expanduser())
    except ValueError:
        return None
