"""The decision on a candidate: better on the benchmark that decides, and nothing forgotten on those that guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuneloop.core.formatting import format_comparison
from tuneloop.core.run_spec import Guard
from tuneloop.core.score import Comparison, Decision, GuardCheck, Score
from tuneloop.tools.statistics.intervals import LEVEL, difference_bounds
from tuneloop.tools.statistics.paired import compare, pair_scores
from tuneloop.tools.statistics.power import precision_in, smallest_allowance


def decide_promotion(
    candidate: Score,
    incumbent: Score,
    *,
    guards: Sequence[Guard] = (),
    others: Mapping[str, Score] | None = None,
    base: Mapping[str, Score] | None = None,
) -> Decision:
    """Compare with the incumbent, and on every guard with the base model, so that losses do not add up unseen.

    `others` and `base` are the candidate's and the base model's scores by benchmark. Raises ValueError when scores are
    not of the same items, or a guard was not measured.
    """
    comparison = compare(candidate, incumbent)
    checks = []
    for guard in guards:
        if guard.benchmark not in (others or {}) or guard.benchmark not in (base or {}):
            raise ValueError(f"the guard {guard} was not measured")
        checks.append(check_guard((others or {})[guard.benchmark], (base or {})[guard.benchmark], guard))
    reasons = [*comparison_objection(comparison), *(guard_objection(found) for found in checks if not found.kept)]
    return Decision(comparison=comparison, guards=tuple(checks), reasons=tuple(reasons))


def check_guard(candidate: Score, base: Score, guard: Guard) -> GuardCheck:
    """Non-inferiority: the loss stays below what is allowed with 95 % confidence.

    Where so few items could not show this even of an equal model, which is known from the base model alone, the loss
    that was measured decides.
    """
    units = pair_scores(candidate, base).units
    loss, worst = -100 * units.mean, -100 * difference_bounds(units, 1 - LEVEL)[0]
    smallest = smallest_allowance(precision_in(base))
    return GuardCheck(
        benchmark=guard.benchmark,
        allowed=guard.points,
        n=candidate.n,
        loss=loss,
        worst=worst,
        smallest=smallest,
        kept=(worst if smallest <= guard.points else loss) <= guard.points,
    )


def comparison_objection(comparison: Comparison) -> list[str]:
    """Why the comparison alone turns a candidate down, if it does."""
    return [] if comparison.better else [f"no better than the incumbent: {format_comparison(comparison)}"]


def guard_objection(found: GuardCheck) -> str:
    """Why a guard turns a candidate down."""
    measured = f"{found.benchmark}: lost {found.loss:.1f} points on {found.n:,} items"
    if not found.able:
        return f"{measured}, allowed are {found.allowed:g}; so few items cannot show an allowance below {found.smallest:.1f}"
    return f"{measured}, which can be up to {found.worst:.1f} (95 %); allowed are {found.allowed:g}"
