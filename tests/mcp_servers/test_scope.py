"""What servers refuse, and how agents reach them."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.conftest import linked_home
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.errors import InfrastructureError, ToolError
from tuneloop.core.files import read_json, read_lines, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import McpEvaluation, McpToolbox, McpTraining, open_toolbox
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.data_gate.gate import run_gate
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.journal import experiment_score


@pytest.fixture
async def toolbox(whole_run) -> AsyncIterator[McpToolbox]:
    async with open_toolbox(Scope(whole_run.run, Settings(FT_FILE_PATH=whole_run.home)), None) as tools:
        yield tools


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("evaluation_evaluate", {"experiment": 1, "split": "test"}),
        ("evaluation_get_result", {"experiment": 1, "split": "test"}),
        ("data_show_items", {"split": "test"}),
        ("data_show_items", {"split": "TEST"}),
        ("data_show_items", {"split": "sealed/test"}),
        ("data_show_items", {"split": "unseen"}),
    ],
)
async def test_no_server_opens_the_sealed_split(toolbox: McpToolbox, tool: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="closed; open here: validation"):
        await toolbox.call(tool, **arguments)


@pytest.mark.parametrize(
    "path", ["../../benchmarks/wordproblems/sealed/test.jsonl", "/etc/passwd", "textbook.csv/../quiz.tsv"]
)
async def test_no_file_outside_a_data_set_is_read(toolbox: McpToolbox, path: str) -> None:
    with pytest.raises(ToolError, match="has no file"):
        await toolbox.call("data_sample_rows", dataset="wordproblems", path=path)


async def test_an_agent_has_its_own_tools_only(whole_run) -> None:
    scope = Scope(whole_run.run, Settings(FT_FILE_PATH=whole_run.home))
    async with open_toolbox(scope, RESEARCHER.tools) as mine:
        assert set(await mine.names()) == set(RESEARCHER.tools)
        with pytest.raises(ToolError, match="not for you"):
            await mine.call("training_stop", experiment=1, kind="train")
        assert (await mine.call("evaluation_get_result", experiment=1))["scores"][0]["n"] == 1000


async def test_nodes_and_agents_get_the_same(whole_run, toolbox: McpToolbox) -> None:
    scope = Scope(whole_run.run, Settings(FT_FILE_PATH=whole_run.home))
    trained, measured = McpTraining(scope).status(1, "train"), McpEvaluation(scope).result(1)
    assert trained.model_dump(mode="json") == await toolbox.call("training_status", experiment=1, kind="train")
    assert measured.model_dump(mode="json") == await toolbox.call("evaluation_get_result", experiment=1)
    assert measured.scores is not None and measured.scores[0] == experiment_score(whole_run.run, 1).summary
    with pytest.raises(ToolError, match="experiment 7 does not exist"):
        McpTraining(scope).status(7, "train")


async def test_errors_are_sentences(toolbox: McpToolbox) -> None:
    with pytest.raises(ToolError, match="experiment 7 does not exist; there are 001"):
        await toolbox.call("training_status", experiment=7, kind="train")
    with pytest.raises(ToolError, match="did you mean 'lora_rank'"):
        await toolbox.call("params_describe_parameter", name="lora_rnk")


async def test_a_launch_of_what_is_over_starts_nothing(whole_run, toolbox: McpToolbox) -> None:
    jobs = whole_run.run.experiment(1).jobs
    before = sorted(p.name for p in jobs.iterdir())
    found = await toolbox.call("evaluation_evaluate", experiment=1)
    assert found["job"] is None
    assert (await toolbox.call("evaluation_get_result", experiment=1))["state"] == "over"
    assert sorted(p.name for p in jobs.iterdir()) == before


async def test_over_stdio(whole_run) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(whole_run.home)}
    args = ["-m", "tuneloop.mcp_servers.main", "data", "--run", "whole"]
    async with Client(StdioTransport(sys.executable, args, env=env)) as client:
        found = await client.call_tool("list_datasets", {})
    assert {f["path"] for f in found.structured_content["result"][0]["files"]} >= {
        "textbook.csv.jsonl",
        "chat.json.jsonl",
    }


def test_without_the_guard_test_items_would_be_trained_on(whole_run, tmp_path: Path) -> None:
    """Where a script writes rows leaked from the test, what keeps them out is the guard, and nothing else."""
    run: RunFolder = whole_run.run
    run_tools = RunTools(run, Settings(FT_FILE_PATH=whole_run.home))
    sealed = list(read_lines(run_tools.benchmark.root / "sealed" / "test.jsonl"))[:20]
    asked = {row["prompt"] for row in sealed}
    written = read_json(next(run.experiment(1).work.glob("build_data-*/data.json")))
    rows = [{**written[0], "instruction": row["prompt"], "output": row["answer"]} for row in sealed]
    write_json(tmp_path / "raw.json", written + rows)
    common: dict[str, Any] = {"row_limit": 10**6, "benchmark": run_tools.setup.benchmark, "cutoff_len": None}
    tokenizer = run_tools.setup.model_root / "tokenizer.json"
    run_gate(
        tmp_path / "raw.json", tmp_path / "open", guard=Guard([]), drop_overlaps=False, tokenizer=tokenizer, **common
    )
    leaked = [r for r in read_json(tmp_path / "open" / "data.json") if r["instruction"] in asked]
    assert len(leaked) > 10
    guard = make_guard(run_tools.benchmarks, None)
    run_gate(tmp_path / "raw.json", tmp_path / "shut", guard=guard, drop_overlaps=True, tokenizer=tokenizer, **common)
    kept = read_json(tmp_path / "shut" / "data.json")
    assert [r for r in kept if r["instruction"] in asked] == []
    assert read_json(tmp_path / "shut" / "report.json")["dropped"]["overlap with test"] >= len(leaked)


def over_stdio(home: Path, command: str, args: list[str]) -> Scope:
    how = {"command": command, "args": args}
    return Scope(None, Settings(FT_FILE_PATH=home, TUNELOOP_MCP_URLS={"params": how}))


async def test_agents_reach_a_server_that_is_started_over_stdio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llamafactory: Engine
) -> None:
    """The same answer as from the server in this process; the program sees no key, and ends with its client."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key-4d81")
    spy = "import os, runpy, sys; open('env', 'w').write(repr([dict(os.environ), os.getpid()])); sys.argv[1:] = ['params']; "
    spy += "runpy.run_module('tuneloop.mcp_servers.main', run_name='__main__')"
    monkeypatch.chdir(tmp_path)
    asked = {"tool": "params_describe_parameter", "name": "lora_rank"}
    home = linked_home(tmp_path / "home")
    async with open_toolbox(Scope(None, Settings(FT_FILE_PATH=home)), None) as here:
        right = await here.call(**asked)
    scope = over_stdio(home, sys.executable, ["-c", spy])
    async with open_toolbox(scope, ("params_describe_parameter",)) as there:
        assert [card.name for card in await there.cards()] == ["params_describe_parameter"]
        assert await there.call(**asked) == right
        with pytest.raises(ToolError, match="not for you"):
            await there.call("params_list_templates")
    env, pid = ast.literal_eval((tmp_path / "env").read_text())
    assert (env["FT_FILE_PATH"], "OPENAI_API_KEY" in env) == (str(home), False)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("command", "args", "why"),
    [
        ("no-such-program", [], "no-such-program"),
        (sys.executable, ["-c", "raise SystemExit('what is this?')"], "what is this?"),
    ],
)
async def test_a_program_that_does_not_serve_is_told_in_one_line(
    tmp_path: Path, command: str, args: list[str], why: str
) -> None:
    with pytest.raises(InfrastructureError) as e:
        async with open_toolbox(over_stdio(tmp_path, command, args), None) as tools:
            await tools.call("params_list_templates")
    assert str(e.value).startswith(f"MCP server params ({command}) did not start: ")
    assert why in str(e.value)
    assert "\n" not in str(e.value)


async def test_a_server_that_ends_in_the_middle_pauses_the_run(tmp_path: Path) -> None:
    dies = "import os\nfrom fastmcp import FastMCP\nserver = FastMCP('params')\n"
    dies += (
        "@server.tool\ndef die() -> str:\n    os._exit(1)\n@server.tool\ndef add(a: int) -> int:\n    return a + 1\n"
    )
    dies += "server.run()"
    async with open_toolbox(over_stdio(tmp_path, sys.executable, ["-c", dies]), None) as tools:
        assert await tools.call("params_add", a=1) == 2
        for wrong in ("params_add", "params_no_such_tool"):
            with pytest.raises(ToolError):
                await tools.call(wrong, a="one")
        with pytest.raises(
            InfrastructureError, match=r"MCP server params stopped answering: .*; `tuneloop resume` goes on"
        ):
            await tools.call("params_die")
        with pytest.raises(InfrastructureError, match="stopped answering"):
            await tools.cards()
