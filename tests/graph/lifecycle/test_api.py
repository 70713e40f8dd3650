"""Runs from Python: sync, async, streaming, several at a time, inside a running loop."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tuneloop
from tests.conftest import linked_home
from tests.crash.world import write_task
from tuneloop import InvalidRequestError, RunSpec, Settings, arun, astream, run, stream
from tuneloop.agents.policy import parameter_map
from tuneloop.graph.lifecycle import create_run
from tuneloop.graph.lifecycle.drive import create_run as create_named_run
from tuneloop.graph.state import State
from tuneloop.tools.runs.manifest import read_spec

ROOT = Path(__file__).parents[3]
SPEC = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)


@pytest.fixture
def finished(whole_run: Any, tmp_path: Path) -> Settings:
    """Settings of a home with the finished run; the environment knows another home."""
    target = tmp_path / "elsewhere" / "runs" / "whole"
    shutil.copytree(whole_run.run.root, target, symlinks=True, ignore=shutil.ignore_patterns("workers"))
    shutil.copy(whole_run.home / "signing.key", tmp_path / "elsewhere")
    return Settings(FT_FILE_PATH=tmp_path / "elsewhere")


def test_a_wrong_request_begins_nothing(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    with pytest.raises(InvalidRequestError, match="no run 'none'"):
        run("none", settings)
    with pytest.raises(InvalidRequestError, match="nonsense"):
        run(SPEC.model_copy(update={"benchmark": "nonsense"}), settings)
    with pytest.raises(InvalidRequestError, match="no such folder"):
        next(stream(SPEC.model_copy(update={"base_model": "./nowhere"}), settings))
    assert not list((tmp_path / "home").glob("runs/*/run.yaml"))


def test_the_graph_uses_the_settings_that_it_was_built_with(tmp_path: Path) -> None:
    mine = Settings(FT_FILE_PATH=tmp_path / "mine")
    with pytest.raises(InvalidRequestError, match=re.escape(f"'none' is not in {mine.home.runs}")):
        tuneloop.build_graph(mine).compile().invoke(State(run_id="none"))


def test_runs_that_are_made_at_once_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_run, "fresh_name", lambda spec: "b-1")
    monkeypatch.setattr(create_run, "check_spec", lambda *_: time.sleep(0.2))
    settings = Settings(FT_FILE_PATH=tmp_path)
    specs = [SPEC.model_copy(update={"seed": seed}) for seed in (1, 2, 3)]
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda spec: create_run.create_run_folder(spec, settings), specs))
    assert {run.id for run in made} == {"b-1", "b-1-2", "b-1-3"}
    assert [read_spec(run) for run in made] == specs


def test_a_name_is_given_to_one_of_those_who_ask_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_run, "check_spec", lambda *_: time.sleep(0.2))
    settings = Settings(FT_FILE_PATH=tmp_path)

    def make(seed: int) -> str:
        try:
            create_run.create_run_folder(SPEC.model_copy(update={"seed": seed}), settings, "mine")
        except InvalidRequestError as e:
            return str(e)
        return f"seed {read_spec(settings.home.run('mine')).seed}"

    with ThreadPoolExecutor() as pool:
        first, second = sorted(pool.map(make, (1, 2)))
    assert first == "run 'mine' exists with another spec; resume it, or choose another --run-id"
    assert second == f"seed {read_spec(settings.home.run('mine')).seed}"


@pytest.mark.parametrize("name", ["my run", ".hidden", "a/b", "x" * 81, "-"])
def test_a_name_that_no_folder_has_is_refused(tmp_path: Path, name: str) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    with pytest.raises(InvalidRequestError, match="right are up to 80 letters"):
        create_named_run(SPEC, settings, name)
    assert not settings.home.runs.exists()


async def test_a_finished_run_is_read_every_way(finished: Settings) -> None:
    """In a running event loop, as in a notebook; the plain call works there too."""
    found = run("whole", finished)
    assert (found.state, found.id) == ("finished", "whole")
    assert found.report is not None and found.report["run_id"] == "whole"
    assert len(found.journal.experiments) == 1
    assert await arun("whole", finished) == found
    assert await asyncio.gather(*(arun("whole", finished) for _ in range(3))) == [found] * 3
    assert list(stream("whole", finished)) == []
    assert [event async for event in astream("whole", finished)] == []


def test_results_are_printed(finished: Settings) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(finished.home.root)}
    argv = (sys.executable, str(ROOT / "examples" / "results.py"), "whole")
    p = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stderr
    assert p.stdout.startswith("1 ")
    assert "best:" in p.stdout


async def test_the_notebook_runs(finished: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell in a running loop, with `await` at the top, as a kernel does it; the run is there already."""
    monkeypatch.setenv("FT_FILE_PATH", str(finished.home.root))
    monkeypatch.setenv("RUN", "whole")
    monkeypatch.setenv("MPLBACKEND", "agg")
    book = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())
    space: dict[str, Any] = {}
    for cell in book["cells"]:
        assert cell.get("outputs", []) == []
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), cell["id"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            done = eval(code, space)  # what a kernel does with a cell
            if asyncio.iscoroutine(done):
                await done
    assert space["result"].id == "whole"


@pytest.fixture
def little(tmp_path: Path, warm_home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What makes a run small: an own task with few items and rows, and trainings of few steps."""
    monkeypatch.setattr(parameter_map, "TINY_STEPS", 40)
    task = write_task(tmp_path / "task")
    return {"benchmark": str(task), "datasets": (str(task / "data"),)}


async def test_two_at_a_time_then_one_goes_on(warm_home: Path, little: dict[str, Any]) -> None:
    """Each has its own home though one process holds both; the environment's is not touched. One is followed, and left."""
    homes = [warm_home, linked_home(warm_home.with_name("other"))]
    settings = [Settings(FT_FILE_PATH=home) for home in homes]
    spec = SPEC.model_copy(update=little)
    results = await asyncio.gather(*(arun(spec, each, name="one", steps=1) for each in settings))
    for home, result in zip(homes, results, strict=True):
        assert (result.state, result.reason, result.folder) == ("paused", "1 nodes done", home / "runs" / "one")
        assert (result.folder / "baseline" / "scores.json").is_file()
    async with contextlib.aclosing(astream("one", settings[0])) as events:
        async for event in events:
            if event.kind == "node_finished":
                break
    assert run("one", settings[0], steps=1).state == "paused", "inside of a running loop"


@pytest.mark.soak
def test_the_examples_run(
    warm_home: Path, little: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they are, but for a smaller task."""
    monkeypatch.setenv("FT_FILE_PATH", str(warm_home))
    monkeypatch.setattr(tuneloop, "RunSpec", lambda **asked: RunSpec(**{**asked, **little}))
    runpy.run_path(str(ROOT / "examples" / "run.py"))
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("run task-")
    assert {line.partition(":")[0] for line in told[1:-1]} >= {"researcher", "data_engineer", "critic", "experiment 1"}
    assert Path(told[-1]).name == "report.md"
    runpy.run_path(str(ROOT / "examples" / "several.py"))
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in told] == ["finished", "finished"]
    assert len({line.split()[0] for line in told}) == 2
    code = (ROOT / "examples" / "invoke.py").read_text()
    assert len(code.splitlines()) <= 10
    given = '"benchmark": "wordproblems"'
    assert given in code
    exec(code.replace(given, f'"benchmark": {little["benchmark"]!r}, "datasets": {little["datasets"]!r}'), {})
    assert Path(capsys.readouterr().out.strip()).is_file()
