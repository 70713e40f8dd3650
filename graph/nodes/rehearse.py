"""rehearse: a micro-run of the real engine (rung 4), and a forecast that must fit what is left."""

from __future__ import annotations

from typing import Any

from tuneloop.core.cost import Forecast
from tuneloop.core.errors import RecipeError
from tuneloop.core.events import Forecasted
from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import Exit
from tuneloop.core.layout import given
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import run_rehearsal
from tuneloop.graph.steering.compliance import check_epochs
from tuneloop.tools.gate.rehearsal import check_rehearsal
from tuneloop.tools.limits import memory_limit
from tuneloop.tools.params.config_text import parse_config
from tuneloop.tools.params.memory import largest_batch
from tuneloop.tools.rehearsed import forecast_of
from tuneloop.tools.trained import log_points, verified
from tuneloop.tools.training import situation
from tuneloop.tools.watching import evaluation_seconds

MARGIN = 1.15  # what a forecast may be too low by


def rehearse(ctx: Context) -> dict[str, Any]:
    """A few steps; loss finite and moving; the whole run forecast."""
    folder = ctx.folder
    try:
        run_rehearsal(ctx)
    except RecipeError as e:
        raise RecipeError(f"{cure(ctx)}{e}", culprit=e.culprit) from e
    end = proven_end(ctx)
    found = forecast_of(folder, situation(ctx.bench, folder), ctx.bench.setup.model_fingerprint, end)
    write_json(folder.forecast, found.model_dump(mode="json"))
    left = seconds_left(ctx)
    ctx.emit(
        Forecasted(
            experiment=ctx.state.experiment,
            forecast=found,
            seconds_left=left if ctx.seconds_left() is not None else None,
            memory_limit=memory_limit(ctx.settings),
        )
    )
    check_epochs(ctx, found)
    fits(found, left)
    return {"stage": "train"}


def cure(ctx: Context) -> str:
    """What would fit, where memory ended the micro-run on a CPU; "" otherwise."""
    end = ctx.bench.status(ctx.folder.jobs, "rehearse")[0].exit
    case = situation(ctx.bench, ctx.folder)
    if end is None or end.reason != "memory" or case.device != "cpu":
        return ""
    longest = int(read_json(ctx.folder.data / "report.json").get("lengths", {}).get("longest", 0))
    batch = largest_batch(case, memory_limit(ctx.settings), longest or None)
    fits = f"per_device_train_batch_size up to {batch} fits, gradient_accumulation_steps makes up for it"
    none = "no batch fits: lower cutoff_len, or write finetuning_type: lora"
    return f"ended by memory; by the estimate {fits if batch else none}. "


def proven_end(ctx: Context) -> Exit:
    """How the micro-run ended. Raises RecipeError naming what its files show to be wrong."""
    folder = ctx.folder
    out = folder.work / "rehearsal_model"
    verified(out, parse_config((given(folder.work, "rehearse") / "config.yaml").read_text()).values, rows=0, seconds=0)
    end = ctx.bench.status(folder.jobs, "rehearse")[0].exit
    assert end is not None, "a micro-run that was waited for is over"
    wrong = check_rehearsal(log_points(out), end)
    if wrong:
        raise RecipeError("; ".join(wrong), culprit="config")
    return end


def seconds_left(ctx: Context) -> float | None:
    """Of the run's time less its evaluation, or of FT_FULL_TIMEOUT; None: unlimited."""
    left = ctx.seconds_left()
    run = None if left is None else left - evaluation_seconds(ctx.bench)
    return min((max(0.0, s) for s in (run, ctx.settings.full_timeout) if s is not None), default=None)


def fits(found: Forecast, left: float | None) -> None:
    """Raises RecipeError, with what would fit, when the training would outlast the seconds that are `left`.

    Memory was tried: the micro-run had the longest rows under the limit of the training.
    """
    if left is not None and found.seconds * MARGIN > left:
        most = int((left / MARGIN - found.beside) / found.seconds_per_step) if found.seconds_per_step else 0
        raise RecipeError(
            f"the forecast does not fit the time: {found.seconds:.0f} s ({found.steps} steps of "
            f"{found.seconds_per_step:.2f} s, {found.beside:.0f} s beside them), and {left:.0f} s are left: "
            + (
                f"use at most {most} steps"
                if most > 0
                else "not even one step fits, use a cheaper method or fewer rows"
            ),
            culprit="config",
        )
