"""Gather what the report tells from the run's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tuneloop.core.experiment import Candidates
from tuneloop.core.files import read_field, read_model
from tuneloop.core.layout import RunFolder
from tuneloop.core.prices import price_source
from tuneloop.core.profile import DatasetProfile
from tuneloop.core.run_spec import Setup
from tuneloop.core.score import GuardCheck, Score, SealedTest, ValidationHalves
from tuneloop.core.transcript import TranscriptEnded, list_transcripts, read_transcript
from tuneloop.graph.budget.limits import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.rebuild import read_failures
from tuneloop.graph.nodes.extra_seeds import candidate_folder
from tuneloop.graph.outcomes.promotion import guard_specs
from tuneloop.graph.outcomes.warnings import collect_warnings
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.budget.spending import run_spending, spending_by_requester, with_disk
from tuneloop.tools.data_gate.findings import refused_overlaps
from tuneloop.tools.data_gate.report import GateReport
from tuneloop.tools.evaluation.run_evaluation import sealed_precision
from tuneloop.tools.evaluation.test_access_log import access_number, has_test_access, was_measured_before
from tuneloop.tools.hub.base_models import ModelChoice
from tuneloop.tools.llm_proxy.ledger import sums_by_job
from tuneloop.tools.raw_data.cache import dataset_view
from tuneloop.tools.report.data import Curve, FurtherBenchmark, ModelUse, ReportData, RunFacts
from tuneloop.tools.report.timing import node_times
from tuneloop.tools.runs.fork import read_fork
from tuneloop.tools.runs.journal import experiment_score, load_journal, other_scores, whole_score
from tuneloop.tools.statistics import check_guard, claim, comparison_of, gain_difference, pair_scores, smallest_gain
from tuneloop.tools.training.result import log_points


def run_facts(ctx: Context, field: Candidates) -> RunFacts:
    """How the run came about and what it took."""
    run, setup, spec = ctx.run, ctx.run_tools.setup, ctx.run_tools.spec
    journal = load_journal(run)
    numbers = [e.number for e in journal.experiments]
    return RunFacts(
        spec=spec,
        benchmark=setup.benchmark,
        base_model=setup.model_name,
        model_choice=read_model(run.model_choice, ModelChoice) if run.model_choice.is_file() else None,
        candidates=field,
        journal=journal,
        losses={n: curve for n in numbers if (curve := loss_curve(run, n))},
        data={n: read_model(f, GateReport) for n in numbers if (f := run.experiment(n).data / "report.json").is_file()},
        warnings={n: found for n in numbers if (found := collect_warnings(run, n))},
        seconds=ctx.state.spent,
        times=node_times(run),
        calls=sums_by_job(run.ledger),
        spent=with_disk(run, run_spending(run, ctx.state.spent)),
        limits=current_limits(run, spec),
        loop_n=experiments_limit(run, spec),
        models=tuple(model_usage(ctx)),
        versions=setup.versions,
        seeds={"data": spec.seed, "training": spec.seed, **({"evaluation": spec.seed} if spec.evaluated else {})},
        sandbox=setup.sandbox,
        planner=setup.planner,
        answers=answers_by_planner(run),
        stopped=read_field(run.stop, "reason", str) if run.stop.is_file() else "",
    )


def report_data(ctx: Context, test: SealedTest, field: Candidates) -> ReportData:
    """Everything `write_report` needs."""
    run, facts = ctx.run, run_facts(ctx, field)
    untouched = experiment_score(run, 0)
    origin = read_fork(run) if run.fork.is_file() else None
    best = whole_score(candidate_folder(ctx, field.chosen).scores) if field.chosen else None
    numbers = [e.number for e in facts.journal.experiments]
    measured = {"Base on validation": untouched, "Base on the test": test.base[0]}
    if best and test.best:
        measured |= {"Best on validation": best, "Best on the test": test.best[0]}
    return ReportData(
        **dict(facts),
        baseline_validation=untouched.bare,
        best_validation=best and best.bare,
        baseline_test=test.base[0].bare,
        best_test=test.best[0].bare if test.best else None,
        claim=claim(test.best[0], test.base[0]) if test.best else None,
        smallest_gain=smallest_gain(sealed_precision(ctx.run_tools)),
        validation_shown=len(untouched.items),
        halves=validation_halves(best, untouched) if best else None,
        guards_test=guard_losses(ctx, test),
        also=tuple(further_benchmark(ctx, number, test, field) for number in range(1, len(test.base))),
        raw_overlaps=raw_overlaps(run),
        refused={n: rows for n in numbers if (rows := refused_rows(run, n))},
        removed=removed_rows(ctx.run_tools.setup),
        scorer_failed={who: failed for who, score in measured.items() if (failed := score.scorer_failed())},
        fork=origin,
        lineage_opened=was_measured_before(ctx.settings.home, run)
        or (origin is not None and has_test_access(ctx.settings.home, (origin.run, *origin.before))),
        opening=access_number(ctx.run_tools),
    )


def model_usage(ctx: Context) -> Iterator[ModelUse]:
    """Who asked which model for how much."""
    for (who, model), found in spending_by_requester(ctx.run).items():
        yield ModelUse(who=who, model=model, price=price_source(model, ctx.settings.api_prices), sums=found)


def removed_rows(setup: Setup) -> dict[str, int]:
    """Data set → rows with sealed items that its view leaves out."""
    views = {name: dataset_view(setup, name) for name in setup.datasets}
    found = {name: sum(view.removed.values()) for name, view in views.items() if view}
    return {name: count for name, count in found.items() if count}


def raw_overlaps(run: RunFolder) -> dict[str, int]:
    """Data set → records in which its profile saw validation items."""
    files = sorted((run.root / "profiles").glob("[0-9a-f]*.json"))
    profiles = [read_model(file, DatasetProfile) for file in files]
    found = {
        p.name: sum(len(held.split()) for held in {s.file: s.overlapping for s in p.sources}.values()) for p in profiles
    }
    return {name: count for name, count in found.items() if count}


def refused_rows(run: RunFolder, number: int) -> int:
    """Rows that the gate refused for their validation items, in all attempts of an experiment."""
    return sum(refused_overlaps(failure.text) for failure in read_failures(run.experiment(number)))


def answers_by_planner(run: RunFolder) -> dict[str, int]:
    """Model, `offline`, or "" where an agent had none that could be used → answers; {} where no chat model was asked."""
    ended = (
        line for path in list_transcripts(run) for line in read_transcript(path) if isinstance(line, TranscriptEnded)
    )
    return dict(Counter(line.by if line.answer is not None else "" for line in ended))


def guard_losses(ctx: Context, test: SealedTest) -> tuple[GuardCheck, ...]:
    """What the best model lost on the sealed tests of the guards."""
    base, best = ({score.benchmark: score for score in side} for side in (test.base, test.best))
    return tuple(check_guard(best[g.benchmark], base[g.benchmark], g) for g in guard_specs(ctx)) if test.best else ()


def validation_halves(best: Score, base: Score) -> ValidationHalves | None:
    """The gain on the validation items that agents see beside that on the others; None where all are seen."""
    if not (best.unseen and base.unseen):
        return None
    shown, unseen = (pair_scores(half_score(best, part), half_score(base, part)) for part in ("items", "unseen"))
    difference, low, high = gain_difference(shown, unseen)
    return ValidationHalves(
        shown=comparison_of(shown), unseen=comparison_of(unseen), difference=difference, low=low, high=high
    )


def half_score(score: Score, part: str) -> Score:
    """A score of some of its items, for comparisons."""
    items = getattr(score, part)
    return score.model_copy(update={"items": items, "unseen": (), "n": len(items)})


def further_benchmark(ctx: Context, number: int, test: SealedTest, found: Candidates) -> FurtherBenchmark:
    """A further benchmark, counted from 1: base and best on both splits."""
    name = test.base[number].benchmark
    best = other_scores(candidate_folder(ctx, found.chosen).scores, [name])[name] if found.chosen else None
    return FurtherBenchmark(
        benchmark=name,
        baseline_validation=other_scores(ctx.run.baseline / "scores.json", [name])[name],
        best_validation=best,
        baseline_test=test.base[number].bare,
        best_test=test.best[number].bare if test.best else None,
    )


def loss_curve(run: RunFolder, number: int) -> Curve:
    """Training loss by step."""
    points = log_points(run.experiment(number).model)
    return tuple((p["current_steps"], float(p["loss"])) for p in points if "loss" in p)
