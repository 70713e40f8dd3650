"""evaluate: OpenCompass on the validation split; `scores.json` holds every item's result."""

from __future__ import annotations

from typing import Any

from tuneloop.core.errors import WorldError
from tuneloop.core.files import write_json
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.wait import KILLS, killed, wait
from tuneloop.tools.measuring import measured, place


def evaluate(ctx: Context) -> dict[str, Any]:
    """Score the trained model."""
    folder = ctx.folder
    if not folder.scores.is_file():
        score = measure(ctx, ctx.state.experiment)
        write_json(folder.scores, score.model_dump(mode="json"))
    return {"stage": "critique"}


def measure(ctx: Context, number: int) -> Score:
    """Validation score of an experiment's model, of the untouched one for 0. Raises RecipeError or WorldError."""
    for _ in range(KILLS):
        ctx.call("evaluation_launch", experiment=number)
        status = wait(
            ctx,
            "evaluate" if number else "baseline",
            lambda: ctx.call("evaluation_status", experiment=number),
            lambda: ctx.call("evaluation_stop", experiment=number),
            ctx.bench.proof(place(ctx.bench, number) / "jobs", "evaluate"),
        )
        if not killed(status):
            return measured(ctx.bench, number)
    raise WorldError(f"the evaluation was killed {KILLS} times; look at {place(ctx.bench, number) / 'jobs'}")
