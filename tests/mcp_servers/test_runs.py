"""The server `runs`: what is started outlives it, what is refused leaves nothing, what is read is what the run left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError as McpToolError

from tests.mcp_servers.test_http import free_port
from tests.waiting import until
from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.agents.critic import CRITIC
from tuneloop.agents.data_engineer import DATA_ENGINEER
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.runs import PAGE, RunTools, build_server
from tuneloop.mcp_servers.scope import Scope

DEFAULT: dict[str, Any] = {"benchmark": "wordproblems", "base_model": "tiny"}


def tools(home: Path) -> RunTools:
    return RunTools(Scope(None, Settings(FT_FILE_PATH=home)))


@pytest.fixture
def copied(whole_run: Any, tmp_path: Path) -> Path:
    """A home with the finished run, and the same once more."""
    for name in ("whole", "again"):
        target = tmp_path / "home" / "runs" / name
        shutil.copytree(
            whole_run.run.root, target, symlinks=True, ignore=shutil.ignore_patterns("workers", "work", "jobs")
        )
    return tmp_path / "home"


def test_a_finished_run_is_read(copied: Path) -> None:
    t = tools(copied)
    assert {run["name"]: run["state"] for run in t.list_runs()["runs"]} == {"whole": "finished", "again": "finished"}
    status = t.run_status("whole")
    assert (status["state"], status["experiments_in_all"], status["paused_because"]) == ("finished", 1, None)
    report = t.get_report("whole")
    known = read_json(copied / "runs" / "whole" / "report.json")
    assert report["best"] == known["best"]
    text, offset = "", 0
    while offset is not None:
        page = t.get_report("whole", offset)
        text, offset = text + page["text"], page["next_offset"]
        assert len(page["text"]) <= PAGE + 1000, "what is quoted grows a little"
    assert text.startswith((copied / "runs" / "whole" / "report.md").read_text()[:200])


def test_runs_side_by_side(copied: Path) -> None:
    found = tools(copied).compare_runs(["whole", "again"])
    assert found["runs"][0]["validation"] == found["runs"][1]["validation"]
    assert found["runs"][0]["test"]["baseline"]["n"] > 0
    (pair,) = found["against_first"]
    assert (pair["comparison"]["gain"], pair["comparison"]["better"], pair["note"]) == (0, False, "")
    assert pair["comparison"]["low"] <= 0 <= pair["comparison"]["high"]
    assert "p_value" not in pair["comparison"], "nothing is claimed of validation items"
    again = tools(copied)._run("again")
    scores = again.baseline / "scores.json"
    write_json(scores, {**read_json(scores), "benchmark": "another"})
    for file in again.experiments.glob("*/scores.json"):
        write_json(file, {**read_json(file), "benchmark": "another"})
    (pair,) = tools(copied).compare_runs(["whole", "again"])["against_first"]
    assert pair["comparison"] is None
    assert "scores differ in benchmark" in pair["note"]


def test_what_is_not_there_is_said(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="there is no run yet"):
        tools(tmp_path / "empty").run_status()
    t = tools(copied)
    for call in (t.run_status, t.get_report, t.stop_run, t.resume_run):
        with pytest.raises(Exception, match=r"no run 'whol' in .*: did you mean 'whole'"):
            call("whol")
    for name in ("../runs/whole", "/etc", "", "."):
        with pytest.raises(Exception, match=r"no run|run's name|there is no run"):
            tools(tmp_path / "empty").get_report(name)
    with pytest.raises(ToolError, match="is finished"):
        t.resume_run("whole")


def test_a_refusal_is_the_command_lines_own_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with pytest.raises(ToolError, match=r"no benchmark 'nonsense'|nonsense"):
        tools(home).start_run("one", "nonsense", "tiny", experiments=1)
    assert [p.name for p in (home / "runs").iterdir()] == [".start.lock"]
    with pytest.raises(ToolError, match="nothing would end"):
        tools(home).start_run("one", "wordproblems", "tiny")
    with pytest.raises(ToolError, match="is not open to you"):
        tools(home).start_run("one", "wordproblems", "/etc", experiments=1)


async def test_arguments_are_bounded(tmp_path: Path) -> None:
    async with Client(build_server(Scope(None, Settings(FT_FILE_PATH=tmp_path)))) as client:
        for wrong in (
            {"name": "../x"},
            {"name": "-x"},
            {"name": ""},
            {"name": "x" * 81},
            {"experiments": 0},
            {"seeds": 21},
            {"validation_share": 0},
            {"validation_share": 1.5},
            {"allow_unsandboxed": True},
            {"sandbox": "process"},
            {"datasets": ["x"] * 51},
        ):
            with pytest.raises(McpToolError):
                await client.call_tool("start_run", {"name": "one", "experiments": 1, **DEFAULT, **wrong})
    assert not (tmp_path / "runs").exists()


async def test_no_agent_of_a_run_can_reach_it(whole_run: Any) -> None:
    allowed = {tool for agent in (CONFIG_CODER, CRITIC, DATA_ENGINEER, RESEARCHER, VALIDATOR) for tool in agent.tools}
    assert not [tool for tool in allowed if tool.startswith("runs_")]
    async with open_toolbox(Scope(whole_run.run, Settings(FT_FILE_PATH=whole_run.home)), None) as everything:
        assert not [name for name in await everything.names() if name.startswith("runs_")]
        with pytest.raises(ToolError, match="no server 'runs'"):
            await everything.call("runs_list_runs")


async def test_a_run_outlives_who_started_it(warm_home: Path) -> None:
    """Asked twice at once one run begins; the server is killed with all that is below it; the run works on, and obeys."""
    argv = [sys.executable, "-m", "tuneloop.mcp_servers.main", "runs", "--http", "--port"]
    asked = {"name": "one", "experiments": 1, **DEFAULT}
    home = warm_home
    env = {**os.environ, "FT_FILE_PATH": str(home)}

    async def ask(url: str, tool: str, **arguments: Any) -> dict[str, Any]:
        async with Client(url) as client:
            return dict((await client.call_tool(tool, arguments)).structured_content or {})

    port = free_port()
    server = subprocess.Popen([*argv, str(port)], env=env, cwd=home, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listening(port), 120)
        url = f"http://127.0.0.1:{port}/mcp"
        with ThreadPoolExecutor(2) as pool:
            twice = [pool.submit(asyncio.run, ask(url, "start_run", **asked)) for _ in range(2)]
            assert {done.result()["run"] for done in twice} == {"one"}
        run = tools(home)._run("one")
        until(lambda: is_locked(run.lock), 120)
        assert children(server.pid) == []
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    assert is_locked(run.lock)
    t = tools(home)
    assert t.start_run(**asked)["state"] == "running"
    with pytest.raises(ToolError, match="was asked otherwise"):
        t.start_run(**{**asked, "experiments": 2})
    said = t.steer("one", "finish")
    until(lambda: t.run_status("one")["directives"], 60)
    assert said["answer"] is None or "finish after the open experiment" in said["answer"]
    assert [d["kind"] for d in t.run_status("one")["directives"]] == ["finish"]
    t.stop_run("one")
    until(lambda: not is_locked(run.lock), 300)
    paused = t.run_status("one")
    assert (paused["state"], paused["paused_because"]) == ("paused", "stopped on request")
    assert [p.name for p in (home / "runs").iterdir() if not p.name.startswith(".")] == ["one"]
    assert t.resume_run("one")["state"] == "running"
    t.stop_run("one")
    until(lambda: not is_locked(run.lock), 300)


def listening(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def children(pid: int) -> list[str]:
    """Processes right below it."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
