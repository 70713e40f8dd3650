"""Messages to a running run: one JSON file each, put there by any process, taken away by the orchestrator."""

from __future__ import annotations

import time
from pathlib import Path

from tuneloop.core.errors import Paused
from tuneloop.core.files import read_json, write_json


def put(inbox: Path, **message: str) -> None:
    """Leave a message, e.g. `do="pause"`."""
    write_json(inbox / f"{time.time_ns()}.json", message)


def waiting(inbox: Path) -> list[Path]:
    """Messages not taken yet, oldest first."""
    return sorted(inbox.glob("[0-9]*.json")) if inbox.is_dir() else []


def obey(inbox: Path) -> None:
    """Take every message. Raises Paused when one asks for it."""
    pause = False
    for file in waiting(inbox):
        pause = pause or read_json(file).get("do") == "pause"
        file.unlink()
    if pause:
        raise Paused("stopped on request")
