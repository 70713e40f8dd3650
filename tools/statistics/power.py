"""What a split can show, said in advance: the smallest gain that is claimed, the smallest allowance that a guard can show.

Both assume that the answers of two models of one base correlate at 0.6: of an evenly hard split, one item in ten is
lost and one in ten won where both are equally good. Where the base model was measured, how much its items differ is
known. `tests/tools/statistics/test_promises.py` simulates what is promised here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuneloop.core.score import Score
from tuneloop.tools.statistics.intervals import NORMAL, score_units

ALPHA = 0.05
POWER = 0.8
AGREEMENT = 0.6
EVEN = 0.25  # variance of an item that is right as often as wrong, and of a cluster that is all of it or nothing


@dataclass(frozen=True)
class Precision:
    """What a comparison on a split rests on."""

    items: int
    units: int
    variance: float = EVEN

    @property
    def noise(self) -> float:
        """Variance of a unit's difference between two equal models."""
        return 2 * (1 - AGREEMENT) * self.variance


def precision_in(score: Score) -> Precision:
    """By what the base model, or the incumbent, did on each item."""
    units = score_units(score)
    fewest = 1 / (units.count + 2)  # nothing was right, or all: the next could be otherwise
    least = fewest * (1 - fewest)
    return Precision(units.items, units.count, max(units.variance, least))


def smallest_gain(precision: Precision) -> float:
    """Points: the smallest gain that is claimed four times in five; 100 when not even a full score would be."""
    return 100 * _solve_difference(precision, NORMAL.inv_cdf(1 - ALPHA / 2), lost=False)


def smallest_allowance(precision: Precision) -> float:
    """Points: the smallest loss that an equal model is shown to stay within four times in five; 100 when none is."""
    return 100 * _solve_difference(precision, NORMAL.inv_cdf(1 - ALPHA), lost=True)


def _solve_difference(precision: Precision, chance: float, *, lost: bool) -> float:
    """Solve for the difference, which is itself part of the spread: if it is there, and in the test that looks for it."""
    n, noise, luck = precision.units, precision.noise, NORMAL.inv_cdf(POWER)
    found = 0.0
    for _ in range(200):
        there = noise if lost else noise + found - found * found
        found = min(1.0, 1 / precision.items + chance * math.sqrt((noise + found) / n) + luck * math.sqrt(there / n))
    return found
