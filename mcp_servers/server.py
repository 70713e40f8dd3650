"""Make an MCP server of plain functions: their errors become sentences for the caller, everything else stays inside."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as McpToolError

from tuneloop.core.errors import RecipeError, SetupError, ToolError, WorldError

SPOKEN = (ToolError, RecipeError, SetupError, WorldError)


def make_server(name: str, instructions: str, functions: Sequence[Callable[..., Any]]) -> FastMCP:
    """A server whose tools are `functions`; details of unexpected exceptions are hidden from callers."""
    tools = [spoken(function) for function in functions]
    return FastMCP(name, instructions=instructions, tools=tools, mask_error_details=True)


def spoken(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its errors turned into MCP tool errors with the same sentence."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SPOKEN as e:
            raise McpToolError(str(e)) from e

    return call
