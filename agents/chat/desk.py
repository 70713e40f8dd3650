"""What a chat planner is given to work with: the settings, places in the run, someone to tell, a book."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.events import Event
from tuneloop.core.model_call import Book
from tuneloop.core.settings import Settings


@dataclass(frozen=True)
class Desk:
    """`transcript`: agent → file of the answer at hand; `book` is open while one answer is found.

    `first_wait`: seconds before a failed call is tried again, doubled each time.
    """

    settings: Settings
    transcript: Callable[[str], Path]
    memory: Path
    tell: Callable[[Event], None]
    book: Callable[[], AbstractContextManager[Book]]
    first_wait: float = 1.0
