"""Messages to a running run: one JSON file each, put there by any process, taken away by the orchestrator."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tuneloop.core.errors import Paused
from tuneloop.core.files import read_json, write_json


def put(inbox: Path, **message: str) -> None:
    """Leave a message, e.g. `do="pause"`."""
    write_json(inbox / f"{time.time_ns()}.json", message)


def waiting(inbox: Path) -> list[Path]:
    """Messages not taken yet, oldest first."""
    try:
        names = os.listdir(inbox)  # noqa: PTH208 - asked several times a second while a job runs
    except FileNotFoundError:
        return []
    return sorted(inbox / name for name in names if name[0].isdecimal() and name.endswith(".json"))


def obey(inbox: Path) -> None:
    """Take every message. Raises Paused when one asks for it."""
    pause = False
    for file in waiting(inbox):
        pause = pause or read_json(file).get("do") == "pause"
        file.unlink()
    if pause:
        raise Paused("stopped on request")
