"""The listener: reads what a user says when the rules cannot, and answers questions from what is known of the run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.agents.agent import Agent
from tuneloop.core.directive import Meaning


class Understood(BaseModel):
    """What a message means; without meanings it asks or tells something, and `says` answers."""

    model_config = ConfigDict(frozen=True)

    meanings: tuple[Meaning, ...] = Field((), description="the user's wishes, each once, in order; none for mere talk")
    says: str = Field("", max_length=2000, description="an answer in words, from the facts; empty where none is due")


LISTENER = Agent(
    name="listener",
    answer=Understood,
    tools=(),
    summary=lambda answer: (answer.says or ", ".join(m.kind for m in answer.meanings), ""),
)
