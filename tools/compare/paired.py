"""Two models on the same items: which one measures better, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tuneloop.core.score import Claim, Comparison, Score
from tuneloop.tools.compare.intervals import LEVEL, Bounds, difference_bounds, spread_bounds
from tuneloop.tools.compare.power import ALPHA
from tuneloop.tools.compare.signs import two_sided
from tuneloop.tools.compare.units import Units, grouped

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
        return grouped(self.differences, self.clusters)

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


def pair(candidate: Score, other: Score) -> Paired:
    """Put both results on each item side by side. Raises ValueError when the scores are not of the same items."""
    for name in ("benchmark", "split", "metric", "direction"):
        if getattr(candidate, name) != getattr(other, name):
            raise ValueError(f"scores differ in {name}: {getattr(candidate, name)} and {getattr(other, name)}")
    new, old = ({item.id: item.value for item in score.every} for score in (candidate, other))
    if new.keys() != old.keys() or len(new) != candidate.n or len(old) != other.n:
        raise ValueError("scores are not of the same items")
    clusters = [item.cluster for item in candidate.every]
    return Paired(list(new.values()), [old[i] for i in new], clusters)


def compared(found: Paired) -> Comparison:
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
    return compared(pair(candidate, other))


def claim(candidate: Score, base: Score) -> Claim:
    """What may be said of a candidate on items that the search never saw: one two-sided test, one 95 % interval.

    Raises ValueError when the scores are not of the same items.
    """
    found = pair(candidate, base)
    return Claim(**compared(found).model_dump(), p_value=found.p_value, claimed=found.claimed)


def gain_difference(one: Paired, other: Paired) -> tuple[float, float, float]:
    """How much more was gained on one set of items than on another, disjoint one: points, and a 95 % interval of it."""
    return spread_bounds((one.gain, *one.bounds), (other.gain, *other.bounds))
