"""Obey the messages that other processes left in a run's inbox."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.errors import Paused
from tuneloop.core.files import read_json
from tuneloop.tools.runs.inbox import waiting


def obey(inbox: Path) -> None:
    """Take every message. Raises Paused when one asks for it."""
    pause = False
    for file in waiting(inbox):
        pause = pause or read_json(file).get("do") == "pause"
        file.unlink()
    if pause:
        raise Paused("stopped on request")
