"""Make an MCP server of plain functions: their errors become sentences for the caller, everything else stays inside."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as McpToolError
from fastmcp.tools.base import ToolResult
from pydantic import Field

from tuneloop.core.errors import (
    InfrastructureError,
    InvalidRequestError,
    LimitReachedError,
    RecipeError,
    ToolError,
)
from tuneloop.core.os_errors import naming_os_errors, os_error_line
from tuneloop.mcp_servers.injection_marking import quote_suspicious

SPOKEN = (ToolError, LimitReachedError, RecipeError, InvalidRequestError, InfrastructureError)
# Key of a failed call's `_meta`: which of them it was, and a recipe's culprit. Nodes of a run get the same error back.
ERROR = "tuneloop/error"


def make_server(name: str, instructions: str, functions: Sequence[Callable[..., Any]]) -> FastMCP:
    """A server whose tools are `functions`; details of unexpected exceptions are hidden from callers."""
    tools = [as_mcp_tool(name, function) for function in functions]
    return FastMCP(name, instructions=instructions, tools=tools, mask_error_details=True)


def as_mcp_tool(server: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its errors turned into failed results with the same sentence; `_meta` says of which kind they are."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            with naming_os_errors(f"MCP server {server}"):
                return function(*args, **kwargs)
        except SPOKEN as e:
            kind = next(kind.__name__ for kind in SPOKEN if isinstance(e, kind))
            told = {"kind": kind, "culprit": e.culprit if isinstance(e, RecipeError) else ""}
            # Words of a script, of data, may be in it.
            return ToolResult(content=quote_suspicious(str(e)), meta={ERROR: told}, is_error=True)

    return call


def told_error(text: str, meta: Mapping[str, Any] | None) -> Exception:
    """The error that a tool raised, of a failed result's text and `_meta`."""
    told = (meta or {}).get(ERROR, {})
    kind = next((kind for kind in SPOKEN if kind.__name__ == told.get("kind")), ToolError)
    return RecipeError(text, culprit=str(told.get("culprit", ""))) if kind is RecipeError else kind(text)


def as_mcp_resource(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its errors turned into MCP errors with the same sentence: the caller's, no matter for the log."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SPOKEN as e:
            raise McpToolError(
                quote_suspicious(str(e)), log_level=logging.INFO
            ) from e  # words of a script, of data, may be in it
        except OSError as e:
            raise McpToolError(os_error_line(e), log_level=logging.INFO) from e

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
