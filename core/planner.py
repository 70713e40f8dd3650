"""Where decisions come from: a chat model, or the built-in offline policy."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from tuneloop.core.brief import Brief
from tuneloop.core.toolbox import Toolbox

Answer = TypeVar("Answer", bound=BaseModel)


class Planner(Protocol):
    """Gives typed answers; validated the same way whoever plans."""

    name: str

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Toolbox, want: type[Answer]) -> Answer:
        """The agent's answer. Raises RecipeError when none that is usable was found."""
        ...
