"""What the splits of a run can show, said before anything costs."""

from __future__ import annotations

from tuneloop.core.events import Foreseen, Foresight
from tuneloop.core.score import Score
from tuneloop.graph.context import Context
from tuneloop.graph.verdict import divisor, guards
from tuneloop.tools.compare import Precision, precision_in, smallest_allowance, smallest_gain
from tuneloop.tools.measuring import precisions


def foreseen(ctx: Context) -> Foreseen:
    """By numbers of items and clusters alone, for the first candidate."""
    found = precisions(ctx.bench)
    name = ctx.bench.setup.benchmark.name
    gain = smallest_gain(found[name], divisor(ctx))
    losses = [
        _foresight(guard.benchmark, found[guard.benchmark], smallest_allowance(found[guard.benchmark]), guard.points)
        for guard in guards(ctx)
    ]
    return Foreseen(decides=_foresight(name, found[name], gain), guards=tuple(losses))


def _foresight(benchmark: str, found: Precision, smallest: float, allowed: float | None = None) -> Foresight:
    return Foresight(
        benchmark=benchmark, n=found.items, units=found.units, smallest=round(smallest, 2), allowed=allowed
    )


def visible(ctx: Context, base: Score) -> float:
    """Points: the gain that is seen four times in five, now that the base model was measured."""
    return smallest_gain(precision_in(base), divisor(ctx))
