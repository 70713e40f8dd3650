"""Whether another experiment follows: loops, luck, and what is left to spend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tuneloop.core.experiment import Journal
from tuneloop.core.ledger import Amounts, Line
from tuneloop.graph.budget import asked_to_finish, experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.limiting import MARGIN, extended
from tuneloop.tools.ledger.marks import marked
from tuneloop.tools.ledger.spent import of_experiments
from tuneloop.tools.runs.journal import load_journal

FAILURES_IN_A_ROW = 3


def after(ctx: Context) -> str:
    """The next node."""
    done = load_journal(ctx.run)
    limit = experiments_limit(ctx.run, ctx.bench.spec)
    if asked_to_finish(ctx.run) or (limit is not None and len(done.experiments) >= limit):
        return "finish"
    if stuck(done):
        return "finish"
    return "research" if extended(ctx, partial(short, ctx)) else "finish"


def short(ctx: Context) -> list[Line]:
    """Limits of which there is not enough left for an experiment as dear as the dearest so far."""
    lines = ctx.limited()
    took = list(of_experiments(ctx.run).values()) if lines else []
    return [line for line in lines if marked(ctx.run, "reached", line) or _left(line) < MARGIN * dearest(line, took)]


def dearest(line: Line, took: Sequence[Amounts]) -> float:
    """Of what experiments took."""
    return max((amounts.of(line.kind) for amounts in took), default=0.0)


def _left(line: Line) -> float:
    """Less than nothing where more was spent."""
    return (line.limit or 0.0) - line.spent


def stuck(journal: Journal) -> bool:
    """Three failures in a row: more of the same would only cost. What a user turned down is none."""
    last = journal.experiments[-FAILURES_IN_A_ROW:]
    return len(last) == FAILURES_IN_A_ROW and all(e.failure and e.failure.culprit != "user" for e in last)
