"""evaluate: OpenCompass on the validation split; `scores.json` holds every item's result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.events import Problem
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.verdict import incumbent
from tuneloop.graph.wait import KILLS, killed, wait
from tuneloop.tools.measuring import folder, measured, measuring_conditions, place
from tuneloop.tools.pipeline import proof
from tuneloop.tools.runs.journal import keep, score_file, scores


def evaluate(ctx: Context) -> dict[str, Any]:
    """Score the trained model."""
    file = ctx.folder.scores
    if not file.is_file():
        measure_alike(ctx)
        keep(file, measure(ctx, ctx.state.experiment))
    return {"stage": "critique"}


def measure_alike(ctx: Context) -> None:
    """Measure the incumbent and the untouched model again where engine, device or batching are others than they were then."""
    now = measuring_conditions(ctx.bench)
    for number in dict.fromkeys((0, incumbent(ctx))):
        kept = scores(ctx.run, number)
        if kept.measured_with == now and len(kept.every) == kept.n:
            continue
        who = f"experiment {number}" if number else "the base model"
        ctx.emit(
            Problem(
                node="evaluate", culprit="environment", text=f"{who} is measured again: the engine or device changed"
            )
        )
        try:
            keep(score_file(ctx.run, number), measure(ctx, number))
        except RecipeError as e:
            if e.culprit == "environment":  # time or budget is over: the run comes to its end
                raise
            raise WorldError(f"{who} could not be measured again: {e}") from e


def measure(ctx: Context, number: int) -> list[Score]:
    """Validation scores of an experiment's model, of the untouched one for 0; the one that decides first.

    Raises RecipeError or WorldError.
    """
    run_evaluation(
        ctx,
        "evaluate" if number else "baseline",
        place(ctx.bench, number),
        lambda: ctx.call("evaluation_evaluate", experiment=number),
        lambda: ctx.call("evaluation_get_result", experiment=number),
        lambda: ctx.call("evaluation_stop", experiment=number),
    )
    return measured(ctx.bench, number)


def run_evaluation(
    ctx: Context,
    name: str,
    where: Path,
    start: Callable[[], Any],
    poll: Callable[[], dict[str, Any]],
    stop: Callable[[], Any],
) -> None:
    """Launch an evaluation's jobs one after the other and wait for each; after a kill again.

    Raises WorldError when it is killed again and again.
    """
    jobs = folder(ctx.bench, where)
    for _ in range(KILLS):
        for _ in jobs.stages:
            start()
            if killed(wait(ctx, name, poll, stop, proof(jobs))):
                break
        else:
            return
    raise WorldError(f"{name} was killed {KILLS} times; look at {jobs.jobs}")
