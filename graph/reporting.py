"""Gather what the report tells from the run's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.model_call import Ended, read_transcript, transcripts
from tuneloop.core.prices import said_by
from tuneloop.core.profile import DatasetProfile
from tuneloop.core.score import GuardCheck, Score, SealedTest
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.rebuild import troubles
from tuneloop.graph.verdict import guards
from tuneloop.graph.warned import warnings
from tuneloop.tools.building import leaked
from tuneloop.tools.compare import check, compare
from tuneloop.tools.gate.report import GateReport
from tuneloop.tools.gate.verdict import refused_overlaps
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.ledger.spent import by_whom, spent, with_disk
from tuneloop.tools.proxy.ledger import sums_by_job
from tuneloop.tools.reads import has_read
from tuneloop.tools.report.data import Also, Curve, ModelUse, ReportData
from tuneloop.tools.report.timing import node_times
from tuneloop.tools.runs.forking import read_fork
from tuneloop.tools.runs.journal import baseline, load_journal, other_scores, scores
from tuneloop.tools.trained import log_points


def report_data(ctx: Context, test: SealedTest, reads: int) -> ReportData:
    """Everything `write_report` needs; `reads` counts this run's reading too."""
    run, setup, spec = ctx.run, ctx.bench.setup, ctx.bench.spec
    journal = load_journal(run)
    untouched = baseline(run)
    origin = read_fork(run) if run.fork.is_file() else None
    assert untouched is not None, "finish comes after prepare"
    numbers = [e.number for e in journal.experiments]
    measured = {"Base on validation": untouched, "Base on the test": test.base[0]}
    if journal.best and test.best:
        measured |= {"Best on validation": scores(run, journal.best.number), "Best on the test": test.best[0]}
    return ReportData(
        spec=spec,
        benchmark=setup.benchmark,
        base_model=setup.model_name,
        baseline_validation=bare(untouched),
        baseline_test=bare(test.base[0]),
        best_test=bare(test.best[0]) if test.best else None,
        comparison_test=compare(test.best[0], test.base[0], candidates=1) if test.best else None,
        guards_test=forgotten(ctx, test),
        also=tuple(also(ctx, number, test) for number in range(1, len(test.base))),
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
        leaked=leaked(ctx.bench, run.experiment(journal.best.number)) if journal.best else (),
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
        fork_read_test=origin is not None and has_read(ctx.bench, (origin.run, *origin.before)),
        reads_of_test=reads - 1,
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


def bare(score: Score) -> Score:
    """Without its items."""
    return score.model_copy(update={"items": ()})


def also(ctx: Context, number: int, test: SealedTest) -> Also:
    """A further benchmark, counted from 1: base and best on both splits."""
    name, best = test.base[number].benchmark, load_journal(ctx.run).best
    return Also(
        benchmark=name,
        baseline_validation=other_scores(ctx.run.baseline / "scores.json", [name])[name],
        best_validation=best.also[name] if best else None,
        baseline_test=bare(test.base[number]),
        best_test=bare(test.best[number]) if test.best else None,
    )


def loss_curve(run: RunFolder, number: int) -> Curve:
    """Training loss by step."""
    points = log_points(run.experiment(number).model)
    return tuple((p["current_steps"], float(p["loss"])) for p in points if "loss" in p)
