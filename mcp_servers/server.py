"""Make an MCP server of plain functions: their errors become sentences for the caller, everything else stays inside."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError, ToolError
from tuneloop.mcp_servers.injection_marking import quote_suspicious

if TYPE_CHECKING:
    from fastmcp import FastMCP


SPOKEN = (ToolError, RecipeError, InvalidRequestError, InfrastructureError)


def make_server(name: str, instructions: str, functions: Sequence[Callable[..., Any]]) -> FastMCP:
    """A server whose tools are `functions`; details of unexpected exceptions are hidden from callers."""
    from fastmcp import FastMCP  # slow to import, and not needed by who only calls the functions

    tools = [as_mcp_tool(function) for function in functions]
    return FastMCP(name, instructions=instructions, tools=tools, mask_error_details=True)


def as_mcp_tool(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its errors turned into MCP tool errors with the same sentence: the caller's, no matter for the log."""
    from fastmcp.exceptions import ToolError as McpToolError

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SPOKEN as e:
            raise McpToolError(
                quote_suspicious(str(e)), log_level=logging.INFO
            ) from e  # words of a script, of data, may be in it

    return call


# Arguments that tools of several servers take; their bounds are part of the schema that callers see.

MOST = 999_999
Experiment = Annotated[int, Field(ge=1, le=MOST, description="experiment number")]
Measured = Annotated[int, Field(ge=0, le=MOST, description="experiment number; 0 is the untouched model")]
Count = Annotated[int, Field(ge=1, le=50, description="how many")]
Offset = Annotated[int, Field(ge=0, le=10**9, description="how many to skip")]
Split = Annotated[str, Field(max_length=100, description="validation; others are closed")]
Kind = Annotated[
    Literal["any", "empty", "cut_off", "unparsed", "scorer_failed", "judge_unknown", "partly_right", "wrong"],
    Field(description="which failures are shown as items; the counts are always of all"),
]
Name = Annotated[
    str, Field(max_length=200, description="one of its benchmarks; empty: the first, in a run the one that decides")
]
Group = Annotated[str, Field(max_length=200, description="only items of this part of the benchmark; empty: all")]
