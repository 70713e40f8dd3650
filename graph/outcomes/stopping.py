"""Whether another experiment follows: loops, luck, and what is left to spend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tuneloop.core.budget import Amounts, SpendingLine
from tuneloop.core.experiment import Journal
from tuneloop.core.files import read_field, write_json
from tuneloop.graph.budget.gate import MARGIN, ask_for_more
from tuneloop.graph.budget.limits import experiments_limit, is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.tools.budget.limits import is_marked
from tuneloop.tools.budget.spending import amounts_of, experiment_spending
from tuneloop.tools.runs.journal import known_journal, load_journal, open_hypotheses

FAILURES_IN_A_ROW = 3


def next_node(ctx: Context) -> str:
    """The next node."""
    if is_over(ctx) or not ask_for_more(ctx, partial(missing_limits, ctx)):
        return "finish"
    return "research"


def is_over(ctx: Context) -> bool:
    """Whether no experiment shall follow, whatever is left to spend; by what counts for the one that would."""
    whole, window = load_journal(ctx.run), ctx.run_tools.spec.window
    begun = max(len(whole.experiments), ctx.state.experiment)
    done = whole if window == 1 else known_journal(ctx.run, whole, begun + 1 - window)
    limit = experiments_limit(ctx.run, ctx.run_tools.spec)
    if is_finish_requested(ctx.run) or (limit is not None and begun >= limit):
        return True
    inherited = read_field(ctx.run.fork, "at", int) if ctx.run.fork.is_file() else 0
    own = tuple(one for one in done.experiments if one.number > inherited)
    if is_stuck(Journal(experiments=own), ctx.run_tools.spec.parallel):
        return True
    patience = ctx.run_tools.spec.patience
    in_vain = min(done.unpromoted, len(done.experiments) - inherited)
    if patience is not None and in_vain >= patience:
        reason = f"{in_vain} experiments in a row brought nothing better (--patience {patience})."
        write_json(ctx.run.stop, {"statement": "The run's patience is over.", "reason": reason})
        return True
    return False


def missing_limits(ctx: Context) -> list[SpendingLine]:
    """Limits of which there is not enough left for an experiment as dear as the dearest so far."""
    lines = ctx.spent_of_limits()
    took = list(experiment_spending(ctx.run).values()) if lines else []
    begun = list(amounts_of(ctx.run, dict.fromkeys(open_hypotheses(ctx.run), 0.0)).values()) if lines else []
    return [
        line
        for line in lines
        if is_marked(ctx.run, "reached", line)
        or _left(line) - set_aside(line, took, begun) < MARGIN * dearest_experiment(line, took)
    ]


def set_aside(line: SpendingLine, took: Sequence[Amounts], begun: Sequence[Amounts]) -> float:
    """What open experiments may still take; none of the time, which passes for all of them at once."""
    dearest = 0.0 if line.kind == "time" else dearest_experiment(line, took)
    return sum(max(0.0, dearest - amounts.of(line.kind)) for amounts in begun)


def dearest_experiment(line: SpendingLine, took: Sequence[Amounts]) -> float:
    """Of what experiments took."""
    return max((amounts.of(line.kind) for amounts in took), default=0.0)


def _left(line: SpendingLine) -> float:
    """Less than nothing where more was spent."""
    return (line.limit or 0.0) - line.spent


def is_stuck(journal: Journal, parallel: int = 1) -> bool:
    """Three failures in a row: more of the same would only cost. What a user turned down is none.

    Of many side by side as many as are open at once: among hundreds of experiments three in a row fail by chance.
    """
    wanted = max(FAILURES_IN_A_ROW, parallel)
    last = journal.experiments[-wanted:]
    return len(last) == wanted and all(e.failure and e.failure.culprit != "user" for e in last)
