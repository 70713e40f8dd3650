"""The decision on a candidate: scores and journal from disk, the rest is `tools/statistics/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuneloop.core.events import PowerEstimated, SplitPower, ValidationChosen
from tuneloop.core.run_spec import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.graph.context import Context
from tuneloop.tools.benchmark_items.folder import ValidationSize
from tuneloop.tools.evaluation.item_sets import ItemSet
from tuneloop.tools.evaluation.run_evaluation import precision_of, sealed_precision
from tuneloop.tools.runs.journal import experiment_score, load_journal, score_file, whole_scores
from tuneloop.tools.statistics import Precision, decide_promotion, smallest_allowance, smallest_gain


def incumbent(ctx: Context) -> int:
    """Number of the experiment that a candidate has to beat; 0: the untouched model."""
    best = load_journal(ctx.run).best
    return best.number if best else 0


def decide_candidate(ctx: Context, score: Score, others: Mapping[str, Score], against: Score | None = None) -> Decision:
    """Against the incumbent, or the score `against`, and against the base model on every guard."""
    found = guard_specs(ctx)
    return decide_promotion(
        score,
        against or experiment_score(ctx.run, incumbent(ctx)),
        guards=found,
        others=others,
        base=whole_scores(score_file(ctx.run, 0), [guard.benchmark for guard in found]),
    )


def guard_specs(ctx: Context) -> tuple[Guard, ...]:
    """The run's guards, by the names under which their scores lie."""
    spec, setup = ctx.run_tools.spec, ctx.run_tools.setup
    names = dict(zip(spec.measured, (placed.benchmark.name for placed in setup.benchmarks), strict=True))
    return tuple(Guard(benchmark=names[guard.benchmark], points=guard.points) for guard in spec.guards)


# What the splits of a run can show, said before anything costs.


def estimate_power(ctx: Context) -> PowerEstimated:
    """The gain that the sealed test finds four times in five, by its numbers of items and clusters alone."""
    found = sealed_precision(ctx.run_tools)
    return PowerEstimated(sealed=_split_power(ctx.run_tools.setup.benchmark.name, found, smallest_gain(found)))


def describe_validation(ctx: Context, size: ValidationSize, sets: Sequence[ItemSet]) -> ValidationChosen:
    """What is measured on validation, the benchmark that decides first, and the losses that guards can rule out on it."""
    found, first = {one.name: precision_of(one) for one in sets}, sets[0]
    losses = [
        _split_power(guard.benchmark, found[guard.benchmark], smallest_allowance(found[guard.benchmark]), guard.points)
        for guard in guard_specs(ctx)
    ]
    return ValidationChosen(
        benchmark=first.name,
        n=len(first.items),
        unseen=len(first.unseen),
        units=found[first.name].units,
        why=size.why,
        guards=tuple(losses),
    )


def _split_power(benchmark: str, found: Precision, smallest: float, allowed: float | None = None) -> SplitPower:
    return SplitPower(
        benchmark=benchmark, n=found.items, units=found.units, smallest=round(smallest, 2), allowed=allowed
    )
