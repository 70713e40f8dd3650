"""Is a candidate better than the incumbent, or lucky? The same items, paired, one exact test."""

from __future__ import annotations

from dataclasses import dataclass

from tuneloop.core.score import Comparison, Score
from tuneloop.tools.compare.intervals import LEVEL, difference_bounds
from tuneloop.tools.compare.power import ALPHA, precision_in, smallest_gain
from tuneloop.tools.compare.signs import sign_flip
from tuneloop.tools.compare.units import Units, grouped


@dataclass(frozen=True)
class Paired:
    """Differences of item values, candidate minus incumbent, positive is better; by cluster."""

    units: Units
    wins: int
    losses: int

    @property
    def gain(self) -> float:
        """Points."""
        return 100 * self.units.mean


def pair(candidate: Score, incumbent: Score) -> Paired:
    """Put both results on each item side by side. Raises ValueError when the scores are not of the same items."""
    for name in ("benchmark", "split", "metric", "direction"):
        if getattr(candidate, name) != getattr(incumbent, name):
            raise ValueError(f"scores differ in {name}: {getattr(candidate, name)} and {getattr(incumbent, name)}")
    new, old = ({item.id: item.value for item in score.items} for score in (candidate, incumbent))
    if new.keys() != old.keys() or len(new) != candidate.n or len(old) != incumbent.n:
        raise ValueError("scores are not of the same items")
    differences = [new[i] - old[i] for i in new]
    units = grouped(differences, [item.cluster for item in candidate.items])
    return Paired(units, wins=sum(d > 0 for d in differences), losses=sum(d < 0 for d in differences))


def compare(candidate: Score, incumbent: Score, candidates: int) -> Comparison:
    """The test at 1 / `candidates` of 5 %, which all that are measured against this split share.

    The chance that any equal one is accepted stays below 5 % only if all of them are counted. Raises ValueError when
    the scores are not of the same items.
    """
    found = pair(candidate, incumbent)
    p_value, threshold = sign_flip(found.units.sums), ALPHA / candidates
    low, high = difference_bounds(found.units, (1 - LEVEL) / 2)
    return Comparison(
        n=candidate.n,
        units=found.units.count,
        gain=found.gain,
        low=100 * low,
        high=100 * high,
        wins=found.wins,
        losses=found.losses,
        p_value=p_value,
        candidates=candidates,
        threshold=threshold,
        smallest_gain=smallest_gain(precision_in(incumbent), candidates),
        seeds=max(1, len(candidate.by_seed)),
        accepted=p_value <= threshold,
    )
