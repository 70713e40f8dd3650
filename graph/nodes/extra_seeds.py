"""Further seeds: the last two promoted recipes are trained again; each of these models is a candidate under the same rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tuneloop.core.errors import RecipeError
from tuneloop.core.events import RecipeFailure
from tuneloop.core.experiment import NOT_EVALUATED, Candidate, Candidates, Journal, Training
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.score import Score
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.evaluate import measure_experiment, remeasure_references
from tuneloop.graph.nodes.train import finished_training
from tuneloop.graph.outcomes.promotion import decide_candidate, guard_specs
from tuneloop.tools.evaluation.run_evaluation import measuring_conditions
from tuneloop.tools.housekeeping.pruning import RECIPES, extra_trainings, prune_experiment
from tuneloop.tools.report.timing import job_attempts, job_seconds
from tuneloop.tools.runs.journal import (
    experiment_score,
    keep_score,
    load_journal,
    shown_score,
    whole_score,
    whole_scores,
)

MARGIN = 1.2
MEASURING = ("evaluate.", "execute.", "judge.")


def choose_candidate(ctx: Context) -> Candidates:
    """Which model goes to the sealed test, found or decided; trainings that are there are not made again."""
    file = ctx.run.candidates
    if not file.is_file():
        write_json(file, best_training(ctx).model_dump(mode="json"))
    return read_model(file, Candidates)


def best_training(ctx: Context) -> Candidates:
    """The incumbent, or the training with another seed that measures better."""
    journal = load_journal(ctx.run)
    if not ctx.run_tools.spec.evaluated:
        return trained_candidate(journal)
    if journal.best is None:
        return Candidates()
    left = ctx.clock()
    recipes = journal.promoted[:RECIPES] if ctx.run_tools.spec.seeds > 1 else ()
    try:
        if recipes:
            remeasure_references(ctx)
    except RecipeError as over:  # time or budget
        report_skipped(ctx, journal.best.number, over)
        recipes = ()
    chosen, best = Candidate(experiment=journal.best.number), experiment_score(ctx.run, journal.best.number)
    values = {}
    for e in recipes:
        values[e.number] = [experiment_score(ctx.run, e.number).value]
        for one, score in further_trainings(ctx, e.number, left):
            values[e.number].append(score.value)
            others = whole_scores(candidate_folder(ctx, one).scores, [guard.benchmark for guard in guard_specs(ctx)])
            loser = one
            if has_weights(candidate_folder(ctx, one)) and decide_candidate(ctx, score, others, best).promoted:
                loser, chosen, best = chosen, one, score
            if loser.training > 1:
                prune_experiment(candidate_folder(ctx, loser), weights=True, raw=True, rule="seeds")
        for place in extra_trainings(ctx.run.experiment(e.number)):
            if not place.scores.is_file():  # time cut it short
                prune_experiment(place, weights=True, raw=True, rule="seeds")
    return Candidates(chosen=chosen, values={number: tuple(found) for number, found in values.items()})


def trained_candidate(journal: Journal) -> Candidates:
    """Of a run without a benchmark: the experiment that was trained, if one was."""
    trained = [e.number for e in journal.experiments if e.outcome == NOT_EVALUATED]
    return Candidates(chosen=Candidate(experiment=trained[-1]) if trained else None)


def further_trainings(
    ctx: Context, experiment: int, left: Callable[[], float | None]
) -> Iterator[tuple[Candidate, Score]]:
    """Further trainings of a recipe with their scores, as far as time and budget reach; `left`: seconds, at any moment."""
    for training in range(2, ctx.run_tools.spec.seeds + 1):
        if is_finish_requested(ctx.run):
            return
        here = replace(ctx.again(training), state=ctx.state.model_copy(update={"experiment": experiment}))
        file = here.folder.scores
        alike = file.is_file() and shown_score(file).measured_with == measuring_conditions(ctx.run_tools)
        if file.is_file() and not alike and not has_weights(here.folder):
            continue  # it lost under other conditions, and cannot be measured under these
        if not alike:
            if not can_afford_training(ctx.run.experiment(experiment), left()):
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
    ctx.emit(
        RecipeFailure(experiment=experiment, node="finish", culprit=why.culprit or "unknown", text=str(why)[:2000])
    )


def candidate_folder(ctx: Context, one: Candidate) -> ExperimentFolder:
    """Where a candidate lies."""
    return replace(ctx.run, training=one.training).experiment(one.experiment)


def has_weights(folder: ExperimentFolder) -> bool:
    """Whether a training's weights are still there: those of one that lost are removed."""
    return any(folder.model.glob("*.safetensors"))


def can_afford_training(folder: ExperimentFolder, left: float | None) -> bool:
    """Whether another training and its evaluation fit into the time, as long as the first ones took."""
    trained = read_model(folder.training, Training).seconds
    measured = sum(job_seconds(job) for job in job_attempts(folder.jobs) if job.name.startswith(MEASURING))
    return left is None or left > MARGIN * (trained + measured)


def train_and_measure(ctx: Context) -> None:
    """One training with a seed of its own, whole, and its scores."""
    ctx.folder.root.mkdir(parents=True, exist_ok=True)
    finished_training(ctx)
    keep_score(ctx.folder.scores, measure_experiment(ctx, ctx.state.experiment))
