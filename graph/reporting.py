"""Gather what the report tells from the run's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tuneloop.core.experiment import Candidates
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.model_call import Ended, read_transcript, transcripts
from tuneloop.core.prices import said_by
from tuneloop.core.profile import DatasetProfile
from tuneloop.core.score import GuardCheck, Halves, Score, SealedTest
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.seeds import folder_of
from tuneloop.graph.rebuild import troubles
from tuneloop.graph.verdict import guards
from tuneloop.graph.warned import warnings
from tuneloop.tools.building import leaked
from tuneloop.tools.compare import check, claim, compared, gain_difference, pair, smallest_gain
from tuneloop.tools.gate.report import GateReport
from tuneloop.tools.gate.verdict import refused_overlaps
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.ledger.spent import by_whom, spent, with_disk
from tuneloop.tools.llm_proxy.ledger import sums_by_job
from tuneloop.tools.measuring import sealed_precision
from tuneloop.tools.reads import has_read, measured_before, opening
from tuneloop.tools.report.data import Also, Curve, ModelUse, ReportData
from tuneloop.tools.report.timing import node_times
from tuneloop.tools.runs.forking import read_fork
from tuneloop.tools.runs.journal import load_journal, other_scores, scores, whole_score
from tuneloop.tools.trained import log_points


def report_data(ctx: Context, test: SealedTest, field: Candidates) -> ReportData:
    """Everything `write_report` needs."""
    run, setup, spec = ctx.run, ctx.bench.setup, ctx.bench.spec
    journal = load_journal(run)
    untouched = scores(run, 0)
    origin = read_fork(run) if run.fork.is_file() else None
    best = whole_score(folder_of(ctx, field.chosen).scores) if field.chosen else None
    numbers = [e.number for e in journal.experiments]
    measured = {"Base on validation": untouched, "Base on the test": test.base[0]}
    if best and test.best:
        measured |= {"Best on validation": best, "Best on the test": test.best[0]}
    return ReportData(
        spec=spec,
        benchmark=setup.benchmark,
        base_model=setup.model_name,
        baseline_validation=untouched.bare,
        best_validation=best and best.bare,
        baseline_test=test.base[0].bare,
        best_test=test.best[0].bare if test.best else None,
        claim=claim(test.best[0], test.base[0]) if test.best else None,
        smallest_gain=smallest_gain(sealed_precision(ctx.bench)),
        validation_shown=len(untouched.items),
        halves=halves(best, untouched) if best else None,
        candidates=field,
        guards_test=forgotten(ctx, test),
        also=tuple(also(ctx, number, test, field) for number in range(1, len(test.base))),
        journal=journal,
        losses={n: curve for n in numbers if (curve := loss_curve(run, n))},
        data={
            n: GateReport.model_validate(read_json(f))
            for n in numbers
            if (f := run.experiment(n).data / "report.json").is_file()
        },
        warnings={n: found for n in numbers if (found := warnings(run, n))},
        raw_overlaps=raw_overlaps(run),
        refused={n: rows for n in numbers if (rows := refused(run, n))},
        leaked=leaked(ctx.bench, run.experiment(field.chosen.experiment)) if field.chosen else (),
        seconds=ctx.state.spent,
        times=node_times(run),
        scorer_failed={who: failed for who, score in measured.items() if (failed := score.scorer_failed())},
        calls=sums_by_job(run.ledger),
        spent=with_disk(run, spent(run, ctx.state.spent)),
        limits=limits(run, spec),
        loop_n=experiments_limit(run, spec),
        models=tuple(models(ctx)),
        versions=setup.versions,
        seeds={"data": spec.seed, "training": spec.seed, "evaluation": spec.seed},
        sandbox=setup.sandbox,
        planner=setup.planner,
        answers=answers(run),
        fork=origin,
        lineage_opened=measured_before(ctx.settings.home, run)
        or (origin is not None and has_read(ctx.settings.home, (origin.run, *origin.before))),
        opening=opening(ctx.bench),
    )


def models(ctx: Context) -> Iterator[ModelUse]:
    """Who asked which model for how much."""
    for (who, model), found in by_whom(ctx.run).items():
        yield ModelUse(who=who, model=model, price=said_by(model, ctx.settings.api_prices), sums=found)


def raw_overlaps(run: RunFolder) -> dict[str, int]:
    """Data set → records in which its profile saw validation items."""
    files = sorted((run.root / "profiles").glob("[0-9a-f]*.json"))
    profiles = [DatasetProfile.model_validate(read_json(file)) for file in files]
    found = {
        p.name: sum(len(held.split()) for held in {s.file: s.overlapping for s in p.sources}.values()) for p in profiles
    }
    return {name: count for name, count in found.items() if count}


def refused(run: RunFolder, number: int) -> int:
    """Rows that the gate refused for their validation items, in all attempts of an experiment."""
    return sum(refused_overlaps(trouble.text) for trouble in troubles(run.experiment(number)))


def answers(run: RunFolder) -> dict[str, int]:
    """Model, `offline`, or "" where an agent had none that could be used → answers; {} where no chat model was asked."""
    ended = (line for path in transcripts(run) for line in read_transcript(path) if isinstance(line, Ended))
    return dict(Counter(line.by if line.answer is not None else "" for line in ended))


def forgotten(ctx: Context, test: SealedTest) -> tuple[GuardCheck, ...]:
    """What the best model lost on the sealed tests of the guards."""
    base, best = ({score.benchmark: score for score in side} for side in (test.base, test.best))
    return tuple(check(best[g.benchmark], base[g.benchmark], g) for g in guards(ctx)) if test.best else ()


def halves(best: Score, base: Score) -> Halves | None:
    """The gain on the validation items that agents see beside that on the others; None where all are seen."""
    if not (best.unseen and base.unseen):
        return None
    shown, unseen = (pair(half(best, part), half(base, part)) for part in ("items", "unseen"))
    difference, low, high = gain_difference(shown, unseen)
    return Halves(shown=compared(shown), unseen=compared(unseen), difference=difference, low=low, high=high)


def half(score: Score, part: str) -> Score:
    """A score of some of its items, for comparisons."""
    items = getattr(score, part)
    return score.model_copy(update={"items": items, "unseen": (), "n": len(items)})


def also(ctx: Context, number: int, test: SealedTest, found: Candidates) -> Also:
    """A further benchmark, counted from 1: base and best on both splits."""
    name = test.base[number].benchmark
    best = other_scores(folder_of(ctx, found.chosen).scores, [name])[name] if found.chosen else None
    return Also(
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
