"""The planner that needs no chat model: each agent's answer is worked out from its brief and from tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from pydantic import BaseModel

from tuneloop.agents.policy.config_coder import write_config
from tuneloop.agents.policy.critic import explain
from tuneloop.agents.policy.data_engineer import write_script
from tuneloop.agents.policy.move_table import MoveTable
from tuneloop.agents.policy.researcher import propose_hypothesis
from tuneloop.agents.policy.validator import diagnose
from tuneloop.core.brief import Brief
from tuneloop.core.errors import RecipeError, ToolError
from tuneloop.core.protocols import Toolbox

Answer = TypeVar("Answer", bound=BaseModel)
Agents = dict[str, Callable[[Brief, Toolbox], Awaitable[BaseModel]]]
AGENTS: Agents = {
    "researcher": propose_hypothesis,
    "data_engineer": write_script,
    "config_coder": write_config,
    "validator": diagnose,
    "critic": explain,
}


class OfflinePolicy:
    """A Planner: deterministic, the same brief and the same tool answers give the same decision.

    `table`: of moves, in place of the shipped one.
    """

    name = "offline"

    def __init__(self, table: MoveTable | None = None) -> None:
        told: Agents = {"researcher": partial(propose_hypothesis, table=table), "critic": partial(explain, table=table)}
        self._agents = AGENTS | told

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Toolbox, want: type[Answer]) -> Answer:  # noqa: ARG002
        """The agent's answer. Raises RecipeError for an agent it does not know and when a tool refuses."""
        if agent not in AGENTS:
            raise RecipeError(f"the offline policy has no agent {agent!r}; it has {', '.join(AGENTS)}")
        try:
            found = await self._agents[agent](brief, tools)
        except ToolError as e:
            raise RecipeError(f"{agent}: {e}") from e
        return want.model_validate(found.model_dump())
