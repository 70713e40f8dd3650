"""What agents and nodes call tools through; implemented over MCP in `mcp_servers/client.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


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
