"""What the splits of a run can show, said before anything costs."""

from __future__ import annotations

from collections.abc import Sequence

from tuneloop.core.events import Foreseen, Foresight, ValidationChosen
from tuneloop.graph.context import Context
from tuneloop.graph.verdict import guards
from tuneloop.tools.benchmarks.sizes import Size
from tuneloop.tools.compare import Precision, smallest_allowance, smallest_gain
from tuneloop.tools.evaluation import ItemSet
from tuneloop.tools.measuring import precision_of, sealed_precision


def foreseen(ctx: Context) -> Foreseen:
    """The gain that the sealed test finds four times in five, by its numbers of items and clusters alone."""
    found = sealed_precision(ctx.bench)
    return Foreseen(sealed=_foresight(ctx.bench.setup.benchmark.name, found, smallest_gain(found)))


def chosen(ctx: Context, size: Size, sets: Sequence[ItemSet]) -> ValidationChosen:
    """What is measured on validation, the benchmark that decides first, and the losses that guards can rule out on it."""
    found, first = {one.name: precision_of(one) for one in sets}, sets[0]
    losses = [
        _foresight(guard.benchmark, found[guard.benchmark], smallest_allowance(found[guard.benchmark]), guard.points)
        for guard in guards(ctx)
    ]
    return ValidationChosen(
        benchmark=first.name,
        n=len(first.items),
        unseen=len(first.unseen),
        units=found[first.name].units,
        why=size.why,
        guards=tuple(losses),
    )


def _foresight(benchmark: str, found: Precision, smallest: float, allowed: float | None = None) -> Foresight:
    return Foresight(
        benchmark=benchmark, n=found.items, units=found.units, smallest=round(smallest, 2), allowed=allowed
    )
