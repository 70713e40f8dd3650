"""Other seeds: what would be accepted is trained and measured again, so that a lucky training is outvoted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Training
from tuneloop.core.files import read_json
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import finished_training
from tuneloop.graph.verdict import verdict
from tuneloop.tools.compare import pooled
from tuneloop.tools.pruning import prune_experiment
from tuneloop.tools.report.timing import attempts, job_seconds
from tuneloop.tools.runs.journal import all_scores, keep

MARGIN = 1.2
MEASURING = ("evaluate.", "execute.", "judge.")
Measure = Callable[[Context, int], list[Score]]


def confirmed(ctx: Context, first: list[Score], measure: Measure) -> list[Score]:
    """Means over several trainings for what would be accepted; what was measured for all else, or when time is short.

    Raises RecipeError when the recipe does not train with another seed.
    """
    wanted = ctx.bench.spec.seeds
    if wanted == 1 or not verdict(ctx, first[0], {score.benchmark: score for score in first[1:]}).accepted:
        return first
    left, trained = ctx.clock(), [first]
    for training in range(2, wanted + 1):
        again = on_the_clock(ctx.again(training), left())
        if not again.folder.scores.is_file() and not affordable(ctx, left()):
            break
        try:
            trained.append(measured_again(again, measure))
        except RecipeError as e:
            if e.culprit == "environment":  # its time was over: what was trained in time counts
                break
            raise RecipeError(f"with seed {ctx.bench.spec.seed + training - 1}: {e}", culprit=e.culprit) from e
    return [pooled(same) for same in zip(*trained, strict=True)]


def on_the_clock(ctx: Context, left: float | None) -> Context:
    """The same with the time that is left now, not when the node began."""
    return replace(ctx, at_most=left, gpu_hours=None)


def affordable(ctx: Context, left: float | None) -> bool:
    """Whether another training and its evaluation fit into the time, as long as the first ones took."""
    trained = Training.model_validate(read_json(ctx.folder.training)).seconds
    measured = sum(job_seconds(job) for job in attempts(ctx.folder.jobs) if job.name.startswith(MEASURING))
    return left is None or left > MARGIN * (trained + measured)


def measured_again(ctx: Context, measure: Measure) -> list[Score]:
    """Scores of this training, found or made; then its weights go."""
    file = ctx.folder.scores
    if not file.is_file():
        ctx.folder.root.mkdir(parents=True, exist_ok=True)
        finished_training(ctx)
        keep(file, measure(ctx, ctx.state.experiment))
    prune_experiment(ctx.folder, weights=True, raw=True, rule="seeds")
    return all_scores(file, [placed.benchmark.name for placed in ctx.bench.setup.also])
