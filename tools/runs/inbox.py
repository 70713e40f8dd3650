"""Messages to a running run: one JSON file each, put there by any process, taken away by the orchestrator."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tuneloop.core.files import write_json


def put(inbox: Path, **message: str) -> Path:
    """Leave a message, e.g. `do="pause"`; its file is gone when it was taken."""
    file = inbox / f"{time.time_ns()}.json"
    write_json(file, message)
    return file


def waiting(inbox: Path) -> list[Path]:
    """Messages not taken yet, oldest first."""
    try:
        names = os.listdir(inbox)  # noqa: PTH208 - asked several times a second while a job runs
    except FileNotFoundError:
        return []
    return sorted(inbox / name for name in names if name[0].isdecimal() and name.endswith(".json"))
