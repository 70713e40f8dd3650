"""What nodes get of the servers `training` and `evaluation`: typed answers, and the tools' own errors, wherever they live."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mcp_servers.test_http import serving
from tests.prepared import prepared
from tuneloop.core.errors import (
    InfrastructureError,
    InvalidRequestError,
    LimitReachedError,
    RecipeError,
    ToolError,
)
from tuneloop.core.files import write_lines
from tuneloop.core.job import Exit, JobStatus
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import McpEvaluation, McpTraining, node_servers
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.training import TrainingTools
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training import methods


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A prepared run with an experiment that was never trained."""
    home = Home(tmp_path)
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", sandbox="bubblewrap")
    made = prepared(home.run("r"), spec, resolve_benchmark("wordproblems", home, None), tmp_path)
    folder = made.experiment(1)
    folder.data.mkdir(parents=True)
    (folder.data / "report.json").write_text("{}")
    folder.config.write_text("{}")
    return made


@pytest.fixture
def scope(run: RunFolder, tmp_path: Path) -> Scope:
    return Scope(run, Settings(FT_FILE_PATH=tmp_path))


def raising(problem: Exception) -> Callable[..., str]:
    def start(*_: object) -> str:
        raise problem

    return start


@pytest.mark.parametrize(
    "problem",
    [
        RecipeError("no step fits", culprit="data"),
        LimitReachedError("tokens are over"),
        InvalidRequestError("no judge"),
        InfrastructureError("engine gone"),
        ToolError("not yet"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_keep_their_kind_and_culprit(scope: Scope, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    monkeypatch.setattr(methods, "launch", raising(problem))
    with pytest.raises(type(problem)) as e:
        McpTraining(scope).launch(1, "train")
    assert (type(e.value), str(e.value)) == (type(problem), str(problem))
    assert getattr(e.value, "culprit", "") == getattr(problem, "culprit", "")


def test_full_disk_in_a_tool_is_the_world_s(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/runs/r/train.yaml")
    monkeypatch.setattr(methods, "launch", raising(full))
    with pytest.raises(InfrastructureError, match=r"/runs/r/train\.yaml: No space left on device; free some space"):
        McpTraining(scope).launch(1, "train")


def test_status_is_typed(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    end = Exit(code=-9, reason="finished", seconds=2.5)
    monkeypatch.setattr(RunTools, "status", lambda *_: (JobStatus(state="over", exit=end), None))
    found = McpTraining(scope).status(1, "train", seconds_left=9.5)
    assert (found.state, found.exit, found.killed, found.findings) == ("over", end, True, ())
    assert McpEvaluation(scope).result(1).scores is None


def test_a_loss_curve_is_short_and_keeps_evaluations_and_its_end(run: RunFolder, scope: Scope) -> None:
    rows = [{"current_steps": step, "loss": 1 / step} for step in range(1, 241)]
    rows += [{"current_steps": step, "eval_loss": 2 / step} for step in (60, 120, 180, 240)]
    write_lines(run.experiment(1).model / "trainer_log.jsonl", rows)
    points = TrainingTools(scope).loss_curve(1)["points"]
    assert len(points) == 60
    assert [p["step"] for p in points if "eval_loss" in p] == [60, 120, 180, 240]
    assert points == sorted(points, key=lambda p: p["step"])
    assert points[-1] == {"step": 240, "loss": 1 / 240, "eval_loss": 2 / 240}


def test_server_in_another_process_gives_the_same_error(run: RunFolder, scope: Scope, tmp_path: Path) -> None:
    with serving(tmp_path, "--run", "r", name="evaluation") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        there = Scope(run, Settings(FT_FILE_PATH=tmp_path, TUNELOOP_MCP_URLS={"evaluation": url}))
        for where in (scope, there):
            with pytest.raises(RecipeError, match="experiment 1 has no finished training") as e:
                McpEvaluation(where).evaluate(1)
            assert e.value.culprit == "config"
        assert McpEvaluation(there).result(1) == McpEvaluation(scope).result(1)


def test_programs_are_for_agents_and_further_trainings_stay_here(run: RunFolder, tmp_path: Path) -> None:
    urls = {"training": "http://127.0.0.1:1/mcp", "evaluation": {"command": "tuneloop-mcp", "args": ["evaluation"]}}
    settings = Settings.model_validate({"FT_FILE_PATH": tmp_path, "TUNELOOP_MCP_URLS": urls})
    assert node_servers(Scope(run, settings)) == {"training": urls["training"]}
    assert node_servers(Scope(replace(run, training=2), settings)) == {}
