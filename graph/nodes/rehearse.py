"""rehearse: a micro-run of the real engine (rung 4), and a forecast that must fit the time left."""

from __future__ import annotations

from typing import Any

import yaml

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import run_training
from tuneloop.tools.params.config_text import parse_config
from tuneloop.tools.params.finalize import planned_steps
from tuneloop.tools.training import seconds_per_step, verified

# Starting the engine, saving, and the evaluation after it; what a first experiment cannot know better.
MARGIN = 1.15


def rehearse(ctx: Context) -> dict[str, Any]:
    """A few steps; loss finite and moving; the whole run forecast."""
    folder = ctx.folder
    run_training(ctx, "rehearse")
    out = folder.work / "rehearsal_model"
    config = yaml.safe_load((folder.work / "rehearse" / "config.yaml").read_text())
    seen = verified(out, config, rows=0, seconds=0)
    each = seconds_per_step(out)
    steps = planned_steps(
        parse_config(folder.config.read_text()).values, int(read_json(folder.data / "report.json")["rows"])
    )
    expected = {"seconds_per_step": each, "steps": steps, "seconds": each * steps, "first_loss": seen.first_loss}
    write_json(folder.root / "forecast.json", expected)
    limits = [s for s in (ctx.seconds_left(), ctx.settings.full_timeout) if s is not None]
    if limits and each * steps * MARGIN > min(limits):
        raise RecipeError(
            f"the training would take {each * steps:.0f} s ({steps} steps of {each:.2f} s) and {min(limits):.0f} s are left: "
            f"use at most {int(min(limits) / MARGIN / each)} steps",
            culprit="config",
        )
    return {"stage": "train"}
