"""The node `smoke_run` on the real engine: its forecast beside the training it was made for, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.graph.test_live_watch import context  # noqa: F401
from tuneloop.core.errors import RecipeError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import TrainingForecast
from tuneloop.core.experiment import Forecast, forecast_error_percent
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.smoke_run import check_fits, smoke_run
from tuneloop.graph.nodes.train import finished_training
from tuneloop.mcp_servers.params import ParameterTools
from tuneloop.tools.data_gate.report import GateReport, Lengths
from tuneloop.tools.runs.event_text import event_line

FOUND = Forecast(seconds=100, cpu=90, memory=5000, steps=40, seconds_per_step=2.0, overhead=20)


def test_forecast_and_truth(context: Callable[..., Context]) -> None:  # noqa: F811
    ctx = context(max_steps=60, val_size=0.1, eval_strategy="steps", eval_steps=0.5)
    assert smoke_run(ctx) == {"stage": "train"}
    said = Forecast.model_validate(read_json(ctx.folder.forecast))
    done = finished_training(ctx)
    assert done.forecast == said and done.spent is not None
    # A busy machine makes seconds longer; CPU seconds less so, memory not.
    assert abs(forecast_error_percent(said.cpu, done.spent.cpu)) < 50, (said, done.spent)
    assert abs(forecast_error_percent(said.memory, done.spent.memory)) < 10, (said, done.spent)
    assert said.steps == done.steps and 0 < said.overhead < said.seconds
    first, last = (e for e in iter_events(ctx.run.events) if isinstance(e, TrainingForecast))
    assert (first.took, last.took) == (None, done.spent)
    assert (event_line(first) or "").startswith("forecast: 60 steps in") and "training took" in (event_line(last) or "")
    told = ParameterTools(ctx.scope).estimate_memory(ctx.folder.config.read_text())
    assert (told["total"], told["source"], told["experiment"]) == (said.memory, "measured", 1)
    other = ParameterTools(ctx.scope).estimate_memory("finetuning_type: lora")
    assert other["source"] == "estimated" and other["total"] == other["estimated"]
    # Less time than that: refused, with what would fit.
    with pytest.raises(RecipeError, match=r"does not fit the time: .* use at most \d+ steps"):
        check_fits(said, said.seconds)


def test_out_of_memory_is_reported_with_what_fits(context: Callable[..., Context]) -> None:  # noqa: F811
    ctx = context(per_device_train_batch_size=16, cutoff_len=1024)
    rows = read_json(ctx.folder.data / "data.json")
    long = {"instruction": "Tom has 7 apples. " * 120, "input": "", "output": "8"}
    write_json(ctx.folder.data / "data.json", [*rows, *[long] * 40])
    report = GateReport(source="data.json", read=240, rows=240, row_limit=240, lengths=Lengths(longest=1000))
    write_json(ctx.folder.data / "report.json", report.model_dump(mode="json"))
    small = Context(ctx.run, ctx.settings.model_copy(update={"job_memory": 640 << 20}), ctx.state)
    with pytest.raises(RecipeError, match=r"^ended by memory; .* per_device_train_batch_size up to 2 fits") as e:
        smoke_run(small)
    assert e.value.culprit == "config"
    assert not ctx.folder.forecast.is_file()


@pytest.mark.parametrize(("left", "steps"), [(114.0, 29), (60.0, 10)])
def test_how_many_steps_would_fit(left: float, steps: int) -> None:
    check_fits(FOUND, 116.0)
    check_fits(FOUND, None)
    with pytest.raises(RecipeError, match=rf"use at most {steps} steps, which leaves 20% of the time"):
        check_fits(FOUND, left)
    # Repaired as told, it fits at once, also when the repair took a fifth of the time.
    repaired = FOUND.model_copy(update={"steps": steps, "seconds": FOUND.overhead + steps * FOUND.seconds_per_step})
    check_fits(repaired, 0.8 * left)


def test_no_step_fits() -> None:
    with pytest.raises(RecipeError, match="not even one step fits"):
        check_fits(FOUND, 20.0)
