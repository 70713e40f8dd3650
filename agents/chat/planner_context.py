"""What a run has learnt of its models: how they take tools, what they don't take, since when one is down."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.agents.chat.tool_calling import Dialect
from tuneloop.core.events import Event
from tuneloop.core.files import read_model, write_json
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import CallLedger

# What a chat planner is given to work with: the settings, places in the run, someone to tell, a book.


@dataclass(frozen=True)
class PlannerContext:
    """`transcript`: agent → file of the answer at hand; `book` is open while one answer is found.

    `first_wait`: seconds before a failed call is tried again, doubled each time.
    """

    settings: Settings
    transcript: Callable[[str], Path]
    memory: Path
    tell: Callable[[Event], None]
    book: Callable[[], AbstractContextManager[CallLedger]]
    first_wait: float = 1.0


# A model that failed to the last try is left alone for so long, in seconds.
REST = 300.0


class ModelFacts(BaseModel):
    """`sure`: it has used tools in this dialect; `without`: parameters it refused; `down`: when it failed, epoch seconds."""

    model_config = ConfigDict(frozen=True)

    dialect: Dialect = "tools"
    sure: bool = False
    without: frozenset[str] = frozenset()
    down: float = 0.0

    @property
    def recently_failed(self) -> bool:
        """It failed a moment ago."""
        return time.time() - self.down < REST


class ModelMemory:
    """A small file of the run: `models.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, model: str) -> ModelFacts:
        """What is known of it."""
        return ModelFacts.model_validate(self._all().get(model, {}))

    def learn(self, model: str, known: ModelFacts) -> None:
        """Keep it, where it is news."""
        everything = self._all()
        if ModelFacts.model_validate(everything.get(model, {})) != known:
            write_json(self.path, {**everything, model: known.model_dump(mode="json")})

    def _all(self) -> dict[str, object]:
        return read_model(self.path, dict[str, object]) if self.path.is_file() else {}
