"""An agent is a declaration: name, prompt, tool allow-list, answer type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from tuneloop.core.brief import Brief
from tuneloop.core.planner import Planner
from tuneloop.core.toolbox import Toolbox
from tuneloop.prompts import render

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class Agent(Generic[Answer]):
    """`summary` gives what the agent says and why, in a line each, for people who watch."""

    name: str
    answer: type[Answer]
    tools: tuple[str, ...]
    summary: Callable[[Answer], tuple[str, str]]

    def prompt(self, brief: Brief) -> str:
        """What the agent is told: `prompts/<name>.md` filled from the brief."""
        return render(self.name, brief)


async def ask(agent: Agent[Answer], planner: Planner, prompt: str, brief: Brief, tools: Toolbox) -> Answer:
    """One typed answer, validated again whoever gave it. Raises RecipeError when there is none."""
    answer = await planner.answer(agent.name, prompt, brief, tools, agent.answer)
    return agent.answer.model_validate(answer.model_dump())
