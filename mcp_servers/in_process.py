"""Tools for code in the same process: the servers' own functions, called without a wire."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from tuneloop.mcp_servers.scope import Scope

TOOLS = {
    "params": "ParameterTools",
    "data": "DataTools",
    "training": "TrainingTools",
    "evaluation": "EvaluationTools",
}


def call_tool(scope: Scope, tool: str, **arguments: Any) -> Any:
    """What the server of `scope` would answer. Raises what the tool raises, ToolError among it.

    A node polls a job for hours: a call costs microseconds here, milliseconds and a second of imports over MCP.
    """
    server, _, name = tool.partition("_")
    return getattr(_tools(server)(scope), name)(**arguments)


@cache
def _tools(server: str) -> Any:
    return getattr(importlib.import_module(f"tuneloop.mcp_servers.{server}"), TOOLS[server])
