"""MCP clients written elsewhere use every server over HTTP and stdio: both official SDKs and the inspector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from tests.foreign import Foreign
from tests.mcp_servers.test_http import serving
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import open_toolbox, unwrap_result
from tuneloop.mcp_servers.runs import RunTools
from tuneloop.mcp_servers.scope import Scope

# A tool of each server that only reads, with arguments; and a call that is refused, with a word of the refusal.
CALLS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], str]] = {
    "params": ("check_config", {"yaml": "lora_rnk: 8"}, "describe_parameter", {"name": "lora_rnk"}, "lora_rank"),
    "data": ("list_datasets", {}, "show_items", {"split": "test"}, "closed"),
    "training": ("status", {"experiment": 1, "kind": "train"}, "loss_curve", {"experiment": 9}, "does not exist"),
    "evaluation": ("get_result", {"experiment": 1}, "get_result", {"experiment": 1, "split": "test"}, "closed"),
    "runs": ("list_runs", {}, "get_report", {"run": "shot"}, "did you mean 'short'?"),
}


def options(name: str) -> tuple[str, ...]:
    """What a server is started with; `runs` serves all of them."""
    return () if name == "runs" else ("--run", "short")


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
    return {found.name for found in listed}, unwrap_result(answer.structured_content), said.text


@pytest.mark.parametrize("name", CALLS)
async def test_both_ways_give_what_code_gets(short_run: Any, name: str, tmp_path: Path) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(short_run.home)}
    argv = ["-m", "tuneloop.mcp_servers.main", name, *options(name)]
    over_stdio = await used(Client(StdioServerParameters(command=sys.executable, args=argv, env=env)), name)
    with serving(short_run.home, *options(name), name=name) as port:
        over_http = await used(Client(f"http://127.0.0.1:{port}/mcp"), name)
    assert over_stdio == over_http
    tools, answer, refusal = over_http
    tool, arguments, *_, word = CALLS[name]
    scope = Scope(short_run.run, Settings(FT_FILE_PATH=short_run.home))
    if name == "runs":
        own = RunTools(scope).list_runs()
    else:
        async with open_toolbox(scope, None) as here:
            own = await here.call(f"{name}_{tool}", **arguments)
    assert answer == own
    assert word in refusal
    assert len(tools) >= 5


def by_typescript(foreign: Foreign, name: str, **where: Any) -> tuple[set[str], Any, str]:
    """The same with the official TypeScript SDK's client."""
    tool, arguments, other, wrong, _ = CALLS[name]
    told = json.dumps({"calls": [[tool, arguments], [other, wrong]], **where})
    argv = (foreign.node, str(foreign.folder / "client.mjs"), told)
    p = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr[-2000:]
    said = json.loads(p.stdout)
    answer, refusal = said["answers"]
    assert (said["server"], answer.get("isError", False), refusal["isError"]) == (name, False, True)
    return set(said["tools"]), unwrap_result(answer["structuredContent"]), refusal["content"][0]["text"]


def by_inspector(foreign: Foreign, name: str, *where: str) -> tuple[set[str], Any, str]:
    """The same with the inspector's command line, one call a process."""
    tool, arguments, other, wrong, _ = CALLS[name]

    def ask(*words: str) -> tuple[int, Any]:
        argv = (*foreign.script("inspector/clients/launcher/build/index.js"), "--cli", *where, "--method", *words)
        p = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        return p.returncode, json.loads(p.stdout) if p.stdout.strip() else p.stderr

    def call(tool: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        given = [word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={value}")]
        return ask("tools/call", "--tool-name", tool, *given)

    (listed, tools), (status, answer), (bad, refusal) = ask("tools/list"), call(tool, arguments), call(other, wrong)
    assert (listed, status) == (0, 0), (tools, answer)
    assert bad != 0
    said = refusal["content"][0]["text"] if isinstance(refusal, dict) and "content" in refusal else str(refusal)
    return {found["name"] for found in tools["tools"]}, unwrap_result(answer["structuredContent"]), said


@pytest.mark.parametrize("name", CALLS)
async def test_clients_of_others_get_the_same(short_run: Any, foreign: Foreign, name: str) -> None:
    env = {"FT_FILE_PATH": str(short_run.home), **{k: v for k, v in os.environ.items() if k.startswith("PYTHON")}}
    argv = ("-m", "tuneloop.mcp_servers.main", name, *options(name))
    stdio = by_typescript(foreign, name, command=sys.executable, args=argv, env=env)
    with serving(short_run.home, *options(name), name=name) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        python = await used(Client(url), name)
        over_http = by_typescript(foreign, name, url=url)
        inspected = by_inspector(foreign, name, url, "--transport", "http")
    assert stdio == over_http == python
    assert inspected[:2] == python[:2]
    assert CALLS[name][-1] in inspected[2]
