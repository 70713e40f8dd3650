"""Two models on the same items: which one measures better, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tuneloop.core.score import Claim, Comparison, Score
from tuneloop.tools.statistics.intervals import LEVEL, Bounds, Units, difference_bounds, group_by_cluster, spread_bounds
from tuneloop.tools.statistics.power import ALPHA

# Sign-flip tests of paired differences, exact: were both models equal, each difference could as well have the other sign.

FINE = 2520  # differences are taken in 2520ths of an item: halves, thirds ... tenths are whole numbers of them
WORK = 500_000_000  # additions; what would take more is taken on a coarser grid


def mcnemar_exact(wins: int, losses: int) -> float:
    """One-sided p: how likely at least `wins` of the items that differ would go to the candidate, were both equal."""
    differ = wins + losses
    term = tail = math.comb(differ, wins)
    for i in range(wins, differ):
        term = term * (differ - i) // (i + 1)
        tail += term
    return tail / (1 << differ)


def sign_flip(differences: Sequence[float]) -> float:
    """One-sided p: how likely random signs would make the sum as large as it is.

    All signs are counted, none are drawn. For single items that are right or wrong this is McNemar's exact test. On
    whatever grid differences are rounded, both signs of one are rounded alike, so that the promise about chance holds.
    """
    steps = _on_grid(differences)
    won, lost = sum(s for s in steps if s > 0), -sum(s for s in steps if s < 0)
    sizes = sorted(abs(s) for s in steps)
    if not sizes or sizes[0] == sizes[-1]:
        return mcnemar_exact(sum(s > 0 for s in steps), sum(s < 0 for s in steps))
    if lost > won:  # the larger half is what the smaller one leaves
        return 1.0 - _at_most(sizes, won - 1)
    return _at_most(sizes, lost)


def two_sided(differences: Sequence[float]) -> float:
    """How likely random signs would make the sum as large as it is, either way: twice the smaller tail."""
    return min(1.0, 2 * min(sign_flip(differences), sign_flip([-d for d in differences])))


def _at_most(sizes: Sequence[int], most: int) -> float:
    """Chance that of `sizes`, each lost with chance one half, at most `most` are lost together."""
    if most < 0:
        return 0.0
    chances = np.zeros(most + 1)
    chances[0] = 1.0
    for size in sizes:
        chances *= 0.5
        if size <= most:
            chances[size:] += chances[: most + 1 - size].copy()
    return min(1.0, float(chances.sum()))


def _on_grid(differences: Sequence[float]) -> list[int]:
    """The differences that are not 0, as whole numbers without a common divisor."""
    steps = _reduced([round(d * FINE) for d in differences])
    while len(set(map(abs, steps))) > 1 and len(steps) * sum(map(abs, steps)) > WORK:
        steps = _reduced([round(s / 2) for s in steps])
    return steps


def _reduced(steps: Sequence[int]) -> list[int]:
    common = math.gcd(*steps)
    return [s // common for s in steps if s]


ROUNDING = 1e-9  # items; values such as 1/3 are rounded, and sums of them differ by less than this


@dataclass(frozen=True)
class Paired:
    """Item values from 0 to 1 of a candidate and of what it is compared with, and the cluster of each item ("": its own).

    Everything is derived on demand: the decision needs no interval.
    """

    candidate: Sequence[float]
    other: Sequence[float]
    clusters: Sequence[str]

    @cached_property
    def total(self) -> float:
        """Sum of the differences, in items. A difference as small as rounding is 0: neither a gain nor a loss."""
        total = math.fsum(self.candidate) - math.fsum(self.other)
        return total if abs(total) > ROUNDING else 0.0

    @property
    def better(self) -> bool:
        """Whether the candidate measures better. A tie is not better."""
        return self.total > 0

    @cached_property
    def differences(self) -> tuple[float, ...]:
        """Candidate minus other, item by item."""
        return tuple(new - old for new, old in zip(self.candidate, self.other, strict=True))

    @cached_property
    def units(self) -> Units:
        """The differences by cluster."""
        return group_by_cluster(self.differences, self.clusters)

    @property
    def gain(self) -> float:
        """Points; exactly 0 for a tie, and negative where the candidate measures below the other."""
        return 100 * self.total / len(self.candidate)

    @cached_property
    def bounds(self) -> Bounds:
        """95 % interval of the gain, in points."""
        low, high = difference_bounds(self.units, (1 - LEVEL) / 2)
        return 100 * low, 100 * high

    @cached_property
    def p_value(self) -> float:
        """Two-sided: the chance that equal models differ by this much either way."""
        return two_sided(self.units.sums)

    @property
    def claimed(self) -> bool:
        """Whether test and interval both say that the candidate is better."""
        return self.better and self.p_value <= ALPHA and self.bounds[0] > 0


def pair_scores(candidate: Score, other: Score) -> Paired:
    """Put both results on each item side by side. Raises ValueError when the scores are not of the same items."""
    for name in ("benchmark", "split", "metric", "direction"):
        if getattr(candidate, name) != getattr(other, name):
            raise ValueError(f"scores differ in {name}: {getattr(candidate, name)} and {getattr(other, name)}")
    new, old = ({item.id: item.value for item in score.every} for score in (candidate, other))
    if new.keys() != old.keys() or len(new) != candidate.n or len(old) != other.n:
        raise ValueError("scores are not of the same items")
    clusters = [item.cluster for item in candidate.every]
    return Paired(list(new.values()), [old[i] for i in new], clusters)


def comparison_of(found: Paired) -> Comparison:
    """The numbers of a comparison, for people and files."""
    low, high = found.bounds
    return Comparison(
        n=len(found.candidate),
        units=found.units.count,
        gain=found.gain,
        low=low,
        high=high,
        wins=sum(d > ROUNDING for d in found.differences),
        losses=sum(d < -ROUNDING for d in found.differences),
        better=found.better,
    )


def compare(candidate: Score, other: Score) -> Comparison:
    """Gain with its 95 % interval. Raises ValueError when the scores are not of the same items."""
    return comparison_of(pair_scores(candidate, other))


def claim(candidate: Score, base: Score) -> Claim:
    """What may be said of a candidate on items that the search never saw: one two-sided test, one 95 % interval.

    Raises ValueError when the scores are not of the same items.
    """
    found = pair_scores(candidate, base)
    return Claim(**comparison_of(found).model_dump(), p_value=found.p_value, claimed=found.claimed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's corrected values, in order: the chance that any of the tests with a value this small finds what is not there."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        found[i] = highest
    return found


def gain_difference(one: Paired, other: Paired) -> tuple[float, float, float]:
    """How much more was gained on one set of items than on another, disjoint one: points, and a 95 % interval of it."""
    return spread_bounds((one.gain, *one.bounds), (other.gain, *other.bounds))
