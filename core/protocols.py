"""Where decisions come from: a chat model, or the built-in offline policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from tuneloop.core.brief import Brief

# What agents and nodes call tools through; implemented over MCP in `mcp_servers/client.py`.


@dataclass(frozen=True)
class ToolCard:
    """A tool as a model sees it: `<server>_<tool>`, what it does, the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class Toolbox(Protocol):
    """Tools of one caller. Names are `<server>_<tool>`, e.g. `data_profile_dataset`."""

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The tool's structured answer (plain JSON values). Raises ToolError with the tool's own sentence."""
        ...

    async def names(self) -> Sequence[str]:
        """Names of the tools this caller may use."""
        ...

    async def cards(self) -> Sequence[ToolCard]:
        """The same tools with what a model must know to use them."""
        ...


Answer = TypeVar("Answer", bound=BaseModel)


class Planner(Protocol):
    """Gives typed answers; validated the same way whoever plans."""

    name: str

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Toolbox, want: type[Answer]) -> Answer:
        """The agent's answer. Raises RecipeError when none that is usable was found."""
        ...
