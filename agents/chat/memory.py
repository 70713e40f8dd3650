"""What a run has learnt of its models: how they take tools, what they don't take, since when one is down."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.agents.chat.dialects import Dialect
from tuneloop.core.files import read_json, write_json

# A model that failed to the last try is left alone for so long, in seconds.
REST = 300.0


class Known(BaseModel):
    """`sure`: it has used tools in this dialect; `without`: parameters it refused; `down`: when it failed, epoch seconds."""

    model_config = ConfigDict(frozen=True)

    dialect: Dialect = "tools"
    sure: bool = False
    without: frozenset[str] = frozenset()
    down: float = 0.0

    @property
    def rests(self) -> bool:
        """It failed a moment ago."""
        return time.time() - self.down < REST


class Memory:
    """A small file of the run: `models.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, model: str) -> Known:
        """What is known of it."""
        return Known.model_validate(self._all().get(model, {}))

    def learn(self, model: str, known: Known) -> None:
        """Keep it, where it is news."""
        everything = self._all()
        if Known.model_validate(everything.get(model, {})) != known:
            write_json(self.path, {**everything, model: known.model_dump(mode="json")})

    def _all(self) -> dict[str, object]:
        found: dict[str, object] = read_json(self.path) if self.path.is_file() else {}
        return found
