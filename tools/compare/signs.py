"""Sign-flip tests of paired differences, exact: were both models equal, each difference could as well have the other sign."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
