"""Whether another experiment follows: loops, time and luck."""

from __future__ import annotations

from tuneloop.core.experiment import Journal
from tuneloop.graph.budget import asked_to_finish, experiments_limit
from tuneloop.graph.context import Context
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
    left, longest = ctx.seconds_left(), max((e.seconds for e in done.experiments), default=0.0)
    return "finish" if left is not None and left < 1.2 * longest else "research"


def stuck(journal: Journal) -> bool:
    """Three failures in a row: more of the same would only cost. What a user turned down is none."""
    last = journal.experiments[-FAILURES_IN_A_ROW:]
    return len(last) == FAILURES_IN_A_ROW and all(e.failure and e.failure.culprit != "user" for e in last)
