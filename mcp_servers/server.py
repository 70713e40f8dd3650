"""Make an MCP server of plain functions: their errors become sentences for the caller, everything else stays inside."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tuneloop.core.errors import RecipeError, SetupError, ToolError, WorldError
from tuneloop.mcp_servers.marking import plain

if TYPE_CHECKING:
    from fastmcp import FastMCP

SPOKEN = (ToolError, RecipeError, SetupError, WorldError)


def make_server(name: str, instructions: str, functions: Sequence[Callable[..., Any]]) -> FastMCP:
    """A server whose tools are `functions`; details of unexpected exceptions are hidden from callers."""
    from fastmcp import FastMCP  # slow to import, and not needed by who only calls the functions

    tools = [spoken(function) for function in functions]
    return FastMCP(name, instructions=instructions, tools=tools, mask_error_details=True)


def spoken(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its errors turned into MCP tool errors with the same sentence: the caller's, no matter for the log."""
    from fastmcp.exceptions import ToolError as McpToolError

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SPOKEN as e:
            raise McpToolError(plain(str(e)), log_level=logging.INFO) from e  # words of a script, of data, may be in it

    return call
