"""Batches over the server `runs`: what the tools say; a real one is stopped and goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError as McpToolError

from tests.conftest import SMALL
from tests.tools.batch.made import TASK, finished
from tests.waiting import until
from tuneloop.core.layout import Home
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.runs import build_server
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.batch.run import find_batch

WRONG: tuple[dict[str, Any], ...] = (
    {"name": "../x"}, {"name": "x" * 61}, {"tasks": []}, {"parallel": 0}, {"sandbox": "process"},
)  # fmt: skip


async def call(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    return dict((await client.call_tool(tool, arguments)).structured_content or {})


async def test_batch_is_started_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    finished(Home(tmp_path), "mine-1-wordproblems-tiny")
    async with Client(build_server(Scope(None, Settings()))) as client:
        with pytest.raises(McpToolError, match="no batch yet"):
            await call(client, "batch_status")
        begun = await call(client, "start_batch", name="mine", tasks=[TASK])
        assert (begun["batch"], begun["runs"], begun["runs_in_all"]) == ("mine", [], 1)
        until(lambda: not is_locked(find_batch(Home(tmp_path), "mine").lock), 60)
        told = await call(client, "batch_status")
        assert (told["state"], told["runs"][0]["state"]) == ("over", "finished")
        assert [(cell["base"], cell["best"], cell["claimed"]) for cell in told["comparison"]] == [(20, 50, 1)]
        for tool in ("resume_batch", "stop_batch", "batch_status"):
            with pytest.raises(McpToolError, match="no batch 'other'; right is one of mine"):
                await call(client, tool, batch="other")
        with pytest.raises(McpToolError, match="nothing to stop"):
            await call(client, "stop_batch", batch="mine")
        for wrong in WRONG:
            with pytest.raises(McpToolError):
                await call(client, "start_batch", **{"name": "two", "tasks": [TASK], **wrong})
    assert [file.name for file in (tmp_path / "batches").iterdir() if file.is_dir()] == ["mine"]


@pytest.mark.slow
async def test_real_batch_stops_and_goes_on(warm_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SMALL, "FT_FILE_PATH": str(warm_home)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(warm_home.parent)
    runs = [Home(warm_home).run(f"b-{n}-wordproblems-tiny-{name}") for n, name in ((1, "a"), (2, "b"))]
    asked = {"name": "b", "tasks": [TASK], "scenarios": {"a": {"seed": 1}, "b": {"seed": 2}}, "parallel": 2}
    async with Client(build_server(Scope(None, Settings()))) as client:
        assert (await call(client, "start_batch", **asked))["state"] == "running"
        assert (await call(client, "start_batch", **asked))["state"] == "running"
        until(lambda: all(is_locked(run.lock) for run in runs), 120)
        await call(client, "stop_batch", batch="b")
        until(lambda: not any(is_locked(run.lock) for run in runs), 120)
        assert (await call(client, "batch_status"))["runs_by_state"] == {"waiting": 2}
        assert (await call(client, "resume_batch", batch="b"))["state"] == "running"
        until(lambda: not is_locked(find_batch(Home(warm_home), "b").lock), 900)
        told = await call(client, "batch_status")
    assert (told["state"], told["runs_by_state"]) == ("over", {"finished": 2}), os.listdir(warm_home)
