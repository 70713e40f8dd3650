"""How fast a model trains here: measured where a run's time decides, survives a kill, used again, and near the truth."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.conftest import SHARED_HOME
from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import RecipeError, ToolError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import RecipeFailure, ThroughputMeasured
from tuneloop.core.experiment import Throughput
from tuneloop.core.files import read_model, write_atomic, write_json
from tuneloop.core.job import Exit, JobReport
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import measure_throughput as node
from tuneloop.graph.nodes.measure_throughput import measure_throughput
from tuneloop.graph.nodes.train import finished_training
from tuneloop.graph.state import State
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.training import TrainingTools
from tuneloop.tools.config.config_text import dump_config
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import cpu_threads
from tuneloop.tools.training import throughput
from tuneloop.tools.training.throughput import (
    forecast_by_throughput,
    measured_throughput,
    suggested_values,
    throughput_folder,
)

FRAME = 33  # tokens that the model's template puts around a row, and its answer
FOUND = Throughput(method="lora", device="cpu", threads=2, rows=2, tokens=140, seconds=0.7, per_token=0.004, overhead=6)


def context(home: Path, run_id: str, model: Path, timeout: str | None = "50m") -> Context:
    """A run that is prepared but for its measurement; nothing of it has to be fetched."""
    settings = Settings(FT_FILE_PATH=home, FT_ENGINES_DIR=SHARED_HOME / "engines")
    spec = RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "smollm2", "timeout": timeout})
    run = prepared(settings.home.run(run_id), spec, wordproblems(settings.home), model, threads=cpu_threads(model))
    return Context(run, settings, State(run_id=run_id))


def large(folder: Path) -> Path:
    """Weights that are not tiny; no engine reads them."""
    folder.mkdir()
    with (folder / "model.safetensors").open("wb") as f:
        f.truncate(1 << 30)
    return folder


def said(ctx: Context) -> list[object]:
    return list(iter_events(ctx.run.events)) if ctx.run.events.is_file() else []


def test_measured_only_where_the_time_of_a_run_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "known_throughput", lambda run_tools: None)
    monkeypatch.setattr(node, "measure", lambda ctx: FOUND)
    (tmp_path / "tiny").mkdir()
    model = large(tmp_path / "model")
    for name, root, timeout in (("endless", model, None), ("tiny", tmp_path / "tiny", "50m")):
        ctx = context(tmp_path / "home", name, root, timeout)
        measure_throughput(ctx)
        assert not ctx.run.throughput.exists()
        assert said(ctx) == []
    ctx = context(tmp_path / "home", "short", model)
    measure_throughput(ctx)
    assert read_model(ctx.run.throughput, Throughput) == FOUND
    assert [type(e) for e in said(ctx)] == [ThroughputMeasured]
    monkeypatch.setattr(node, "measure", lambda ctx: pytest.fail("measured already"))
    measure_throughput(ctx)


def test_what_a_kill_left_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "known_throughput", lambda run_tools: None)
    monkeypatch.setattr(node, "measure", lambda ctx: FOUND)
    ctx = context(tmp_path / "home", "r", large(tmp_path / "model"))
    work = throughput_folder(ctx.run_tools).work
    work.mkdir(parents=True)
    for name in ("write_json", "remove_path"):
        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(node, name, Mock(side_effect=KeyboardInterrupt))
            measure_throughput(ctx)
        assert any(isinstance(event, ThroughputMeasured) for event in said(ctx))
    assert ctx.run.throughput.is_file()
    measure_throughput(ctx)
    assert not work.exists()


@pytest.mark.parametrize("steps", [[[96, 1.0, 1.0, 0]] * 4, [[96, 1.0]], [["96", 1.0, 1.0]], [], None, 7])
def test_a_cost_json_that_is_none_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: object) -> None:
    ctx = context(tmp_path / "home", "r", large(tmp_path / "model"))
    tools = Mock(wraps=ctx.run_tools, run=ctx.run, setup=ctx.run_tools.setup)
    tools.status.return_value = (Mock(exit=Exit(code=0, reason="finished", seconds=1)), None)
    monkeypatch.setattr(throughput, "config_context", lambda *_: None)
    monkeypatch.setattr(throughput, "smoke_run_forecast", lambda *_: None)
    write_json(throughput_folder(ctx.run_tools).work / "smoke_run_model" / "cost.json", {"steps": steps})
    with pytest.raises(RecipeError, match=r"a cost\.json that is none"):
        measured_throughput(tools)


@pytest.mark.parametrize(
    ("spent", "why"), [(0, "It took more than 10% of the time left"), (1, "the run's time was over during throughput")]
)
def test_a_run_goes_on_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spent: float, why: str) -> None:
    ctx = context(tmp_path / "home", "r", large(tmp_path / "model"), "1s")
    ctx = Context(ctx.run, ctx.settings, State(run_id="r", spent=spent))
    monkeypatch.setattr(node, "known_throughput", lambda run_tools: None)
    monkeypatch.setattr(node, "start_throughput", lambda run_tools: None)
    monkeypatch.setattr(node, "throughput_status", lambda run_tools: JobReport(state="running"))
    monkeypatch.setattr(node, "stop_throughput", lambda run_tools: None)
    measure_throughput(ctx)
    assert not ctx.run.throughput.exists()
    (event,) = (event for event in said(ctx) if isinstance(event, RecipeFailure))
    assert event.text.endswith(f"plans start from a guess. {why}")


def write_recipe(ctx: Context, words: int) -> None:
    """Experiment 1: four steps of sixteen rows, of half to three halves of so many words."""
    values = {**suggested_values(ctx.run_tools), "gradient_accumulation_steps": 8, "max_steps": 4}
    rows = [{"instruction": "one " * (words // 2 + n % words), "input": "", "output": "two"} for n in range(300)]
    tokens = [len(row["instruction"].split()) + FRAME for row in rows]
    lengths = {"p95": sorted(tokens)[285], "total": sum(tokens), "longest": max(tokens)}
    folder = ctx.run.experiment(1)
    write_atomic(folder.config, dump_config(values))
    write_json(folder.data / "data.json", rows)
    write_dataset_info(folder.data)
    report = {"source": "-", "read": 300, "rows": 300, "row_limit": 300, "lengths": lengths}
    write_json(folder.data / "report.json", report)


def check_told_forecast(ctx: Context, found: Throughput) -> None:
    """The server tells a forecast before there is a smoke run, for the method that was measured."""
    write_recipe(ctx, 40)
    tools, folder = TrainingTools(Scope(ctx.run, ctx.settings)), ctx.run.experiment(1)
    told = tools.forecast(1)
    assert (told["steps"], told["source"]) == (4, "speed of the base model on this machine")
    assert told["seconds"] == pytest.approx(4 * told["seconds_per_step"] + found.overhead, abs=0.1)
    assert found.step_seconds(16, 60) < told["seconds_per_step"] < found.step_seconds(16, 120)
    for text in ("finetuning_type: full\n", "finetuning_type: [\n"):
        write_atomic(folder.config, text)
        with pytest.raises(ToolError):
            tools.forecast(1)


KILLED = """
from tests.graph.nodes.test_measure_throughput import Path, context, measure_throughput
measure_throughput(context(Path({home!r}), "first", Path({model!r})))
"""


def test_a_killed_measurement_goes_on_and_other_runs_use_it(
    tmp_path: Path, smollm2: Path, llamafactory: Engine
) -> None:
    home = tmp_path / "home"
    first = context(home, "first", smollm2)
    folder = throughput_folder(first.run_tools)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED.format(home=str(home), model=str(smollm2))], env=environment
    )
    while not (folder.work / "smoke_run_model" / "pulse.json").is_file():  # it trains
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    with first.run_tools.warm_engines():
        measure_throughput(first)
    assert [job.name for job in folder.jobs.glob("smoke_run.*")] == ["smoke_run.1"]
    assert not folder.work.exists()
    found = read_model(first.run.throughput, Throughput)
    assert (found.method, found.device, found.rows) == ("lora", "cpu", 2)
    assert 100 < found.tokens < 300
    assert found.step_seconds(16, 256) > found.step_seconds(16, 64) > 0
    check_told_forecast(first, found)
    second = context(home, "second", smollm2)
    began = time.monotonic()
    measure_throughput(second)
    assert time.monotonic() - began < 3
    assert read_model(second.run.throughput, Throughput) == found
    assert [event.known for event in said(second) if isinstance(event, ThroughputMeasured)] == [True]
    assert not throughput_folder(second.run_tools).root.exists()


@pytest.mark.soak
@pytest.mark.parametrize("words", [40, 120])
def test_the_forecast_before_a_smoke_run_is_near_what_a_training_takes(
    tmp_path: Path, smollm2: Path, llamafactory: Engine, words: int
) -> None:
    ctx = context(tmp_path / "home", "r", smollm2)
    ctx = Context(ctx.run, ctx.settings, State(run_id="r", experiment=1))
    with ctx.run_tools.warm_engines():
        measure_throughput(ctx)
        write_recipe(ctx, words)
        forecast = forecast_by_throughput(ctx.run_tools, ctx.folder)
        took = finished_training(ctx).spent
    assert forecast is not None and took is not None
    assert abs(forecast.seconds / took.seconds - 1) <= 0.3, f"{forecast.seconds} s, took {took.seconds}"
