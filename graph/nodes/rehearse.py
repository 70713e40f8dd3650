"""rehearse: a micro-run of the real engine (rung 4), and a forecast that must fit the time left."""

from __future__ import annotations

from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import run_rehearsal
from tuneloop.tools.gate.rehearsal import check_rehearsal
from tuneloop.tools.params.config_text import parse_config
from tuneloop.tools.params.finalize import planned_steps
from tuneloop.tools.trained import log_points, seconds_per_step, verified
from tuneloop.tools.training import length_ratio
from tuneloop.tools.watching import evaluation_seconds

# Starting the engine, saving, and the evaluation after it; what a first experiment cannot know better.
MARGIN = 1.15


def rehearse(ctx: Context) -> dict[str, Any]:
    """A few steps; loss finite and moving; the whole run forecast."""
    folder = ctx.folder
    run_rehearsal(ctx)
    out = folder.work / "rehearsal_model"
    verified(out, parse_config((folder.work / "rehearse" / "config.yaml").read_text()).values, rows=0, seconds=0)
    status, _ = ctx.bench.status(folder.jobs, "rehearse")
    wrong = check_rehearsal(log_points(out), status.exit) if status.exit else []
    if wrong:
        raise RecipeError("; ".join(wrong), culprit="config")
    rows = int(read_json(folder.data / "report.json")["rows"])
    steps = planned_steps(parse_config(folder.config.read_text()).values, rows)
    each = seconds_per_step(out) * length_ratio(folder)
    write_json(folder.root / "forecast.json", {"seconds_per_step": each, "steps": steps, "seconds": each * steps})
    fits(ctx, each, steps)
    return {"stage": "train"}


def fits(ctx: Context, each: float, steps: int) -> None:
    """Raises RecipeError when the training would outlast the run's time or the limit of one training."""
    left = ctx.seconds_left()
    run = None if left is None else left - evaluation_seconds(ctx.bench)
    limits = [max(0.0, s) for s in (run, ctx.settings.full_timeout) if s is not None]
    if limits and each * steps * MARGIN > min(limits):
        raise RecipeError(
            f"the training would take {each * steps:.0f} s ({steps} steps of {each:.2f} s) and {min(limits):.0f} s are left: "
            f"use at most {int(min(limits) / MARGIN / each)} steps",
            culprit="config",
        )
