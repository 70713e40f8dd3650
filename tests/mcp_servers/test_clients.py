"""A plain MCP client, the protocol's own SDK, lists and calls the tools of every server over HTTP and stdio."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from tests.mcp_servers.test_http import serving
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers import direct
from tuneloop.mcp_servers.client import plain
from tuneloop.mcp_servers.scope import Scope

# A tool of each server that only reads, with arguments; and a call that is refused, with a word of the refusal.
CALLS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], str]] = {
    "params": ("check_config", {"yaml": "lora_rnk: 8"}, "describe_parameter", {"name": "lora_rnk"}, "lora_rank"),
    "data": ("list_datasets", {}, "show_items", {"split": "test"}, "closed"),
    "training": ("status", {"experiment": 1, "kind": "train"}, "loss_curve", {"experiment": 9}, "does not exist"),
    "evaluation": ("get_result", {"experiment": 1}, "get_result", {"experiment": 1, "split": "test"}, "closed"),
}


async def used(client: Client, name: str) -> tuple[set[str], Any, str]:
    """Names of the tools, an answer, a refusal."""
    tool, arguments, other, wrong, _ = CALLS[name]
    async with client:
        listed = (await client.list_tools()).tools
        for found in listed:
            assert found.description
            assert found.input_schema["additionalProperties"] is False
        answer, refusal = await client.call_tool(tool, arguments), await client.call_tool(other, wrong)
    assert isinstance(answer, CallToolResult) and isinstance(refusal, CallToolResult)
    assert (answer.is_error, refusal.is_error) == (False, True)
    said = refusal.content[0]
    assert isinstance(said, TextContent)
    return {found.name for found in listed}, plain(answer.structured_content), said.text


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
async def test_both_ways_give_what_code_gets(whole_run: Any, name: str, tmp_path: Path) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(whole_run.home)}
    argv = ["-m", "tuneloop.mcp_servers.main", name, "--run", "whole"]
    over_stdio = await used(Client(StdioServerParameters(command=sys.executable, args=argv, env=env)), name)
    with serving(whole_run.home, "--run", "whole", name=name) as port:
        over_http = await used(Client(f"http://127.0.0.1:{port}/mcp"), name)
    assert over_stdio == over_http
    tools, answer, refusal = over_http
    tool, arguments, *_, word = CALLS[name]
    scope = Scope(whole_run.run, Settings(FT_FILE_PATH=whole_run.home))
    assert answer == direct.call(scope, f"{name}_{tool}", **arguments)
    assert word in refusal
    assert len(tools) >= 5
