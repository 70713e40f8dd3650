"""The decision on the open experiment: scores and journal from disk, the rest is `tools/compare/`."""

from __future__ import annotations

from collections.abc import Mapping

from tuneloop.core.errors import RecipeError
from tuneloop.core.run import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.tools.compare import decide, share
from tuneloop.tools.runs.journal import baseline, load_journal, scores, whole_scores


def verdict(ctx: Context, score: Score, others: Mapping[str, Score]) -> Decision:
    """Against the incumbent, at this candidate's share of 5 %, and against the base model on every guard."""
    journal = load_journal(ctx.run)
    best = journal.best
    incumbent = scores(ctx.run, best.number) if best else baseline(ctx.run)
    if incumbent is None:
        raise RecipeError("the base model was never measured", culprit="environment")
    found = guards(ctx)
    return decide(
        score,
        incumbent,
        divisor(ctx),
        guards=found,
        others=others,
        base=whole_scores(ctx.run.baseline / "scores.json", [guard.benchmark for guard in found]),
    )


def divisor(ctx: Context) -> int:
    """The share of 5 % that the next candidate has, as its divisor."""
    done = load_journal(ctx.run).experiments
    limit = experiments_limit(ctx.run, ctx.bench.spec)
    spent = [e.feedback.comparison.candidates for e in done if e.feedback.comparison]
    return share(None if limit is None else limit - len(done), spent)


def guards(ctx: Context) -> tuple[Guard, ...]:
    """The run's guards, by the names under which their scores lie."""
    spec, setup = ctx.bench.spec, ctx.bench.setup
    names = dict(zip(spec.measured, (placed.benchmark.name for placed in setup.benchmarks), strict=True))
    return tuple(Guard(benchmark=names[guard.benchmark], points=guard.points) for guard in spec.guards)
