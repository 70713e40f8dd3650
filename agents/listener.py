"""The listener: turns a message that is no command into commands, and answers questions from what is known of the run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tuneloop.agents.agent import Agent
from tuneloop.core.commands import parse
from tuneloop.core.errors import InvalidRequestError


class Interpretation(BaseModel):
    """What a message means; without commands it asks or tells something, and `answer` replies."""

    model_config = ConfigDict(frozen=True)

    commands: tuple[str, ...] = Field((), description="commands that the user asks for, in order; none for mere talk")
    answer: str = Field("", max_length=2000, description="a reply in words, from the facts; empty where none is due")

    @field_validator("commands")
    @classmethod
    def can_be_parsed(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Each is a command as users send it."""
        for text in value:
            try:
                parse(text)
            except InvalidRequestError as e:
                raise ValueError(str(e)) from e
        return value


LISTENER = Agent(
    name="listener",
    answer=Interpretation,
    tools=(),
    summary=lambda answer: (answer.answer or ", ".join(answer.commands), ""),
)
