"""Further seeds: the last two promoted recipes are trained again; each of these models is a candidate under the same rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tuneloop.core.errors import RecipeError
from tuneloop.core.events import Problem
from tuneloop.core.experiment import Candidate, Candidates, Training
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.score import Score
from tuneloop.graph.budget import asked_to_finish
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.evaluate import measure, measure_alike
from tuneloop.graph.nodes.train import finished_training
from tuneloop.graph.verdict import guards, verdict
from tuneloop.tools.measuring import measuring_conditions
from tuneloop.tools.pruning import prune_experiment, trained_again
from tuneloop.tools.report.timing import attempts, job_seconds
from tuneloop.tools.runs.journal import keep, load_journal, scores, shown_score, whole_score, whole_scores

RECIPES = 2
MARGIN = 1.2
MEASURING = ("evaluate.", "execute.", "judge.")


def candidates(ctx: Context) -> Candidates:
    """Which model goes to the sealed test, found or decided; trainings that are there are not made again."""
    file = ctx.run.candidates
    if not file.is_file():
        write_json(file, compete(ctx).model_dump(mode="json"))
    return Candidates.model_validate(read_json(file))


def compete(ctx: Context) -> Candidates:
    """The incumbent, or the training with another seed that measures better."""
    journal = load_journal(ctx.run)
    if journal.best is None:
        return Candidates()
    left, recipes = ctx.clock(), journal.promoted[:RECIPES] if ctx.bench.spec.seeds > 1 else ()
    try:
        if recipes:
            measure_alike(ctx)
    except RecipeError as over:  # time or budget
        report_skipped(ctx, journal.best.number, over)
        recipes = ()
    chosen, best = Candidate(experiment=journal.best.number), scores(ctx.run, journal.best.number)
    values = {}
    for e in recipes:
        values[e.number] = [scores(ctx.run, e.number).value]
        for one, score in further_trainings(ctx, e.number, left):
            values[e.number].append(score.value)
            others = whole_scores(folder_of(ctx, one).scores, [guard.benchmark for guard in guards(ctx)])
            loser = one
            if has_weights(folder_of(ctx, one)) and verdict(ctx, score, others, best).promoted:
                loser, chosen, best = chosen, one, score
            if loser.training > 1:
                prune_experiment(folder_of(ctx, loser), weights=True, raw=True, rule="seeds")
        for place in trained_again(ctx.run.experiment(e.number)):
            if not place.scores.is_file():  # time cut it short
                prune_experiment(place, weights=True, raw=True, rule="seeds")
    return Candidates(chosen=chosen, values={number: tuple(found) for number, found in values.items()})


def further_trainings(
    ctx: Context, experiment: int, left: Callable[[], float | None]
) -> Iterator[tuple[Candidate, Score]]:
    """Further trainings of a recipe with their scores, as far as time and budget reach. `left`: seconds, at any moment."""
    for training in range(2, ctx.bench.spec.seeds + 1):
        if asked_to_finish(ctx.run):
            return
        here = replace(
            ctx.again(training),
            state=ctx.state.model_copy(update={"experiment": experiment}),
            at_most=left(),
            gpu_hours=None,
        )
        file = here.folder.scores
        alike = file.is_file() and shown_score(file).measured_with == measuring_conditions(ctx.bench)
        if file.is_file() and not alike and not has_weights(here.folder):
            continue  # it lost under other conditions, and cannot be measured under these
        if not alike:
            if not affordable(ctx.run.experiment(experiment), left()):
                return
            try:
                train_and_measure(here)
            except RecipeError as e:
                report_skipped(here, experiment, e)
                if e.culprit == "environment":  # time or budget is over
                    return
                continue
        yield Candidate(experiment=experiment, training=training), whole_score(file)


def report_skipped(ctx: Context, experiment: int, why: RecipeError) -> None:
    """Emit why a training or a measurement was not made."""
    ctx.emit(Problem(experiment=experiment, node="finish", culprit=why.culprit or "unknown", text=str(why)[:2000]))


def folder_of(ctx: Context, one: Candidate) -> ExperimentFolder:
    """Where a candidate lies."""
    return replace(ctx.run, training=one.training).experiment(one.experiment)


def has_weights(folder: ExperimentFolder) -> bool:
    """Whether a training's weights are still there: those of one that lost are removed."""
    return any(folder.model.glob("*.safetensors"))


def affordable(folder: ExperimentFolder, left: float | None) -> bool:
    """Whether another training and its evaluation fit into the time, as long as the first ones took."""
    trained = Training.model_validate(read_json(folder.training)).seconds
    measured = sum(job_seconds(job) for job in attempts(folder.jobs) if job.name.startswith(MEASURING))
    return left is None or left > MARGIN * (trained + measured)


def train_and_measure(ctx: Context) -> None:
    """One training with a seed of its own, whole, and its scores."""
    ctx.folder.root.mkdir(parents=True, exist_ok=True)
    finished_training(ctx)
    keep(ctx.folder.scores, measure(ctx, ctx.state.experiment))
