"""What the splits of a run can show, said before anything costs."""

from __future__ import annotations

from tuneloop.core.events import Foreseen, Foresight, ValidationChosen
from tuneloop.graph.context import Context
from tuneloop.graph.verdict import guards
from tuneloop.tools.benchmarks.sizes import Size
from tuneloop.tools.compare import Precision, smallest_allowance, smallest_gain
from tuneloop.tools.measuring import precisions


def foreseen(ctx: Context) -> Foreseen:
    """The gain that the sealed test finds four times in five, by its numbers of items and clusters alone."""
    name = ctx.bench.setup.benchmark.name
    found = precisions(ctx.bench, "test")[name]
    return Foreseen(sealed=_foresight(name, found, smallest_gain(found)))


def chosen(ctx: Context, size: Size) -> ValidationChosen:
    """What is measured on validation, and the losses that guards can rule out on so many items."""
    found, first = precisions(ctx.bench, "validation"), ctx.bench.benchmark
    items = ctx.bench.validation(first)
    losses = [
        _foresight(guard.benchmark, found[guard.benchmark], smallest_allowance(found[guard.benchmark]), guard.points)
        for guard in guards(ctx)
    ]
    return ValidationChosen(
        benchmark=first.benchmark.name,
        n=len(items.every),
        unseen=len(items.unseen),
        units=found[first.benchmark.name].units,
        why=size.why,
        guards=tuple(losses),
    )


def _foresight(benchmark: str, found: Precision, smallest: float, allowed: float | None = None) -> Foresight:
    return Foresight(
        benchmark=benchmark, n=found.items, units=found.units, smallest=round(smallest, 2), allowed=allowed
    )
