"""evaluate: OpenCompass on the validation split; `scores.json` holds every item's result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.events import RecipeFailure
from tuneloop.core.job import JobReport
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.promotion import incumbent
from tuneloop.graph.wait import KILLS, wait_for_job
from tuneloop.tools.evaluation.cache import plan_time
from tuneloop.tools.evaluation.jobs import proof_file
from tuneloop.tools.evaluation.result_tree import write_experiment_tree
from tuneloop.tools.evaluation.run_evaluation import (
    evaluation_folder,
    evaluation_place,
    measuring_conditions,
    validation_scores,
)
from tuneloop.tools.jobs.gpu_share import lending_gpus
from tuneloop.tools.runs.evidence import record_evidence
from tuneloop.tools.runs.journal import experiment_score, keep_score, score_file, shown_score

# Of experiments side by side one at a time measures again what all are compared with.
REFERENCES = threading.Lock()


def evaluate(ctx: Context) -> dict[str, Any]:
    """Score the trained model, where the run has a benchmark."""
    file = ctx.folder.scores
    if ctx.run_tools.spec.evaluated and (not file.is_file() or (ctx.slot and not is_comparable(ctx, file))):
        with REFERENCES:
            remeasure_references(ctx)
        found = measure_experiment(ctx, ctx.state.experiment)
        began = plan_time(evaluation_place(ctx.run_tools, ctx.state.experiment))
        write_experiment_tree(ctx.folder.benchmark_results, found, began)
        keep_score(file, found)
    return {"stage": "critique"}


def is_comparable(ctx: Context, file: Path) -> bool:
    """Whether a score is of these conditions: one that waited for its turn may be of a session before."""
    return shown_score(file).measured_with == measuring_conditions(ctx.run_tools)


def remeasure_references(ctx: Context) -> None:
    """Measure the incumbent and the untouched model again where engine, device or batching are others than they were then."""
    now = measuring_conditions(ctx.run_tools)
    for number in dict.fromkeys((0, incumbent(ctx))):
        kept = experiment_score(ctx.run, number)
        if kept.measured_with == now and len(kept.every) == kept.n:
            continue
        place = evaluation_place(ctx.run_tools, number)
        who = f"experiment {number}" if number else "the base model"
        ctx.emit(
            RecipeFailure(
                node="evaluate", culprit="environment", text=f"{who} is measured again: the engine or device changed"
            )
        )
        try:
            with lending_gpus(ctx.run, ctx.state.experiment, place):
                found = measure_experiment(ctx, number)
            keep_score(score_file(ctx.run, number), found)
            record_evidence(ctx.run, place)
        except RecipeError as e:
            if e.culprit == "environment":  # time or budget is over: the run comes to its end
                raise
            raise InfrastructureError(f"{who} could not be measured again: {e}") from e


def measure_experiment(ctx: Context, number: int) -> list[Score]:
    """Validation scores of an experiment's model, of the untouched one for 0; the one that decides first.

    Raises RecipeError or InfrastructureError.
    """
    run_evaluation(
        ctx,
        "evaluate" if number else "baseline",
        evaluation_place(ctx.run_tools, number),
        lambda: ctx.evaluation.evaluate(number),
        lambda: ctx.evaluation.result(number),
        lambda: ctx.evaluation.stop(number),
    )
    return validation_scores(ctx.run_tools, number)


def run_evaluation(
    ctx: Context,
    name: str,
    where: Path,
    start: Callable[[], object],
    poll: Callable[[], JobReport],
    stop: Callable[[], object],
) -> None:
    """Launch an evaluation's jobs one after the other and wait for each; after a kill again.

    Raises InfrastructureError when it is killed again and again.
    """
    jobs = evaluation_folder(ctx.run_tools, where)
    for _ in range(KILLS):
        for _ in jobs.stages:
            start()
            if wait_for_job(ctx, name, poll, stop, proof_file(jobs)).killed:
                break
        else:
            return
    raise InfrastructureError(f"{name} was killed {KILLS} times; look at {jobs.jobs}")
