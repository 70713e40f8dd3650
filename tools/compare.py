"""Is a candidate better than the incumbent, or lucky? Paired and exact: Wilson intervals and McNemar's test."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from tuneloop.core.score import Comparison, Score

ALPHA = 0.05
Z95 = 1.959963984540054
ASSUMED_LOSSES = 0.1


def wilson(k: int, n: int) -> tuple[float, float]:
    """95 % interval for a share, in percent: `k` of `n` items. Raises ValueError unless 0 <= k <= n and n > 0."""
    if not 0 <= k <= n or n == 0:
        raise ValueError(f"{k} of {n} is no share")
    share, z2 = k / n, Z95 * Z95
    centre = share + z2 / (2 * n)
    half = Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    return (0.0 if k == 0 else 100 * low), (100.0 if k == n else 100 * high)


def interval(values: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """95 % interval for the mean of values from 0 to 1, in percent.

    Wilson's for right and wrong; for finer values, or items of one cluster ("" is one of its own), normal over clusters.
    """
    if not any(clusters) and all(value in (0, 1) for value in values):
        return wilson(int(sum(values)), len(values))
    groups: dict[str, list[float]] = defaultdict(list)
    for i, (value, cluster) in enumerate(zip(values, clusters, strict=True)):
        groups[cluster or f"\0{i}"].append(value)
    mean, n = fmean(values), len(values)
    square = sum((sum(group) - mean * len(group)) ** 2 for group in groups.values())
    half = Z95 * math.sqrt(square * len(groups) / max(1, len(groups) - 1)) / n
    return max(0.0, 100 * (mean - half)), min(100.0, 100 * (mean + half))


def mcnemar_exact(wins: int, losses: int) -> float:
    """One-sided p: how likely at least `wins` of the items that differ would go to the candidate, were both equal.

    One-sided, because the question is only whether the candidate may replace the incumbent: a worse one and an equal
    one are both turned down.
    """
    differ = wins + losses
    term = tail = math.comb(differ, wins)
    for i in range(wins, differ):
        term = term * (differ - i) // (i + 1)
        tail += term
    return tail / (1 << differ)


def smallest_gain(n: int, candidates: int, alpha: float = ALPHA) -> float:
    """Points: the smallest gain that `n` items can show.

    Assumes that every tenth item (at least one) is lost while others are won, as two fine-tuned models usually differ;
    with fewer losses a smaller gain can already show. 100 when not even a full score would do.
    """
    losses, threshold = max(1, math.ceil(ASSUMED_LOSSES * n)), alpha / candidates
    wins = bisect_left(range(n - losses + 1), True, key=lambda won: mcnemar_exact(won, losses) <= threshold)
    return 100 * (wins - losses) / n if wins <= n - losses else 100.0


def compare(candidate: Score, incumbent: Score, candidates: int) -> Comparison:
    """Paired test on the same items, corrected for the number of candidates (Bonferroni).

    `candidates` counts all that are measured against this split; the chance that any equal one is accepted stays below
    5 % only if all of them are counted. Raises ValueError when the scores are not of the same items.
    """
    wins, losses = changes(candidate, incumbent)
    sign = 1 if candidate.direction == "max" else -1
    p_value, threshold = mcnemar_exact(wins, losses), ALPHA / candidates
    return Comparison(
        n=candidate.n,
        gain=sign * (candidate.value - incumbent.value),
        wins=wins,
        losses=losses,
        p_value=p_value,
        candidates=candidates,
        threshold=threshold,
        smallest_gain=smallest_gain(candidate.n, candidates),
        accepted=p_value <= threshold,
    )


def changes(candidate: Score, incumbent: Score) -> tuple[int, int]:
    """Items only the candidate solves, and items only the incumbent solves."""
    for name in ("benchmark", "split", "metric", "direction"):
        if getattr(candidate, name) != getattr(incumbent, name):
            raise ValueError(f"scores differ in {name}: {getattr(candidate, name)} and {getattr(incumbent, name)}")
    new, old = ({item.id: item.correct for item in score.items} for score in (candidate, incumbent))
    if new.keys() != old.keys() or len(new) != candidate.n or len(old) != incumbent.n:
        raise ValueError("scores are not of the same items")
    return sum(new[i] and not old[i] for i in new), sum(old[i] and not new[i] for i in new)
