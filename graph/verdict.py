"""The decision on a candidate: scores and journal from disk, the rest is `tools/compare/`."""

from __future__ import annotations

from collections.abc import Mapping

from tuneloop.core.run import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.graph.context import Context
from tuneloop.tools.compare import decide
from tuneloop.tools.runs.journal import load_journal, score_file, scores, whole_scores


def incumbent(ctx: Context) -> int:
    """Number of the experiment that a candidate has to beat; 0: the untouched model."""
    best = load_journal(ctx.run).best
    return best.number if best else 0


def verdict(ctx: Context, score: Score, others: Mapping[str, Score], against: Score | None = None) -> Decision:
    """Against the incumbent, or the score `against`, and against the base model on every guard."""
    found = guards(ctx)
    return decide(
        score,
        against or scores(ctx.run, incumbent(ctx)),
        guards=found,
        others=others,
        base=whole_scores(score_file(ctx.run, 0), [guard.benchmark for guard in found]),
    )


def guards(ctx: Context) -> tuple[Guard, ...]:
    """The run's guards, by the names under which their scores lie."""
    spec, setup = ctx.bench.spec, ctx.bench.setup
    names = dict(zip(spec.measured, (placed.benchmark.name for placed in setup.benchmarks), strict=True))
    return tuple(Guard(benchmark=names[guard.benchmark], points=guard.points) for guard in spec.guards)
