"""What a run asks before it goes on, and what it is answered."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuneloop.core.experiment import Hypothesis

When = Literal["plan", "launch"]


class Asked(BaseModel):
    """The question: `key` is of the recipe and the attempt; `text` says plan, cost so far and forecast."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: When
    experiment: int
    key: str
    text: str


class Decision(BaseModel):
    """The answer; `edit`: go on with these files and this hypothesis in place of those that were shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: Literal["yes", "no", "edit"]
    reason: str = ""
    files: dict[Literal["process_data.py", "train.yaml"], str] = {}
    hypothesis: Hypothesis | None = None
