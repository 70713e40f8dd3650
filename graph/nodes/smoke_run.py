"""smoke_run: a smoke run of the real engine (check 4), and a forecast that must fit what is left."""

from __future__ import annotations

from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.events import TrainingForecast
from tuneloop.core.experiment import Forecast
from tuneloop.core.files import read_model, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import launch_smoke_run
from tuneloop.graph.steering.compliance import check_epochs
from tuneloop.tools.config.memory import largest_batch
from tuneloop.tools.data_gate.report import GateReport
from tuneloop.tools.jobs.machine import memory_limit
from tuneloop.tools.training import methods
from tuneloop.tools.training.launch import config_context
from tuneloop.tools.training.metrics import evaluation_seconds

MARGIN = 1.15  # what a forecast may be too low by
REPAIR = 0.2  # of the time left: what a repair may take itself, so that what is asked for still fits after it


def smoke_run(ctx: Context) -> dict[str, Any]:
    """A few steps; loss finite and moving; the whole run forecast."""
    folder = ctx.folder
    try:
        launch_smoke_run(ctx)
    except RecipeError as e:
        raise RecipeError(f"{memory_hint(ctx)}{e}", culprit=e.culprit) from e
    found = methods.forecast(ctx.run_tools, folder)
    write_json(folder.forecast, found.model_dump(mode="json"))
    left = training_seconds_left(ctx)
    ctx.emit(
        TrainingForecast(
            experiment=ctx.state.experiment,
            forecast=found,
            seconds_left=left if ctx.seconds_left() is not None else None,
            memory_limit=memory_limit(ctx.settings),
        )
    )
    check_epochs(ctx, found)
    check_fits(found, left)
    return {"stage": "train"}


def memory_hint(ctx: Context) -> str:
    """What would fit, where memory ended the smoke run on a CPU; "" otherwise."""
    end = ctx.run_tools.status(ctx.folder.jobs, "smoke_run")[0].exit
    case = config_context(ctx.run_tools, ctx.folder)
    if end is None or end.reason != "memory" or case.device != "cpu":
        return ""
    longest = read_model(ctx.folder.data / "report.json", GateReport).lengths.longest
    batch = largest_batch(case, memory_limit(ctx.settings), longest or None)
    fits = f"per_device_train_batch_size up to {batch} fits, gradient_accumulation_steps makes up for it"
    none = "no batch fits: lower cutoff_len, or write finetuning_type: lora"
    return f"ended by memory; by the estimate {fits if batch else none}. "


def training_seconds_left(ctx: Context) -> float | None:
    """Of the run's time less its evaluation, or of FT_FULL_TIMEOUT; None: unlimited."""
    left = ctx.seconds_left(ctx.worked)
    run = None if left is None else left - evaluation_seconds(ctx.run_tools)
    return min((max(0.0, s) for s in (run, ctx.settings.full_timeout) if s is not None), default=None)


def check_fits(found: Forecast, left: float | None) -> None:
    """Raises RecipeError, with what would fit, when the training would outlast the seconds that are `left`.

    Memory was tried: the smoke run had the longest rows under the limit of the training.
    """
    if left is not None and found.seconds * MARGIN > left:
        room = (1 - REPAIR) * left / MARGIN - found.overhead
        most = int(room / found.seconds_per_step) if found.seconds_per_step else 0
        raise RecipeError(
            f"the forecast does not fit the time: {found.seconds:.0f} s ({found.steps} steps of "
            f"{found.seconds_per_step:.2f} s, {found.overhead:.0f} s beside them), and {left:.0f} s are left: "
            + (
                f"use at most {most} steps, which leaves {REPAIR:.0%} of the time for the repair itself and {MARGIN - 1:.0%} "
                "for what a forecast is too low by"
                if most > 0
                else "not even one step fits, use a cheaper method or fewer rows"
            ),
            culprit="config",
        )
