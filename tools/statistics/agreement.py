"""How far a judge agrees with people's labels: share, Cohen's kappa with its interval, and what it got wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuneloop.tools.statistics import wilson

Label = tuple[bool, bool | None]
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Agreement:
    """Percent of labels met with a 95 % interval, and kappa from -1 to 1 (nan where all labels and verdicts are one).

    A verdict that could not be read counts as wrong, as it does in a score, and is counted apart.
    """

    n: int
    share: float
    low: float
    high: float
    kappa: float
    kappa_low: float
    kappa_high: float
    false_correct: int
    false_incorrect: int
    unknown: int


def judge_agreement(labels: Sequence[Label]) -> Agreement:
    """Of pairs (label, verdict). Raises ValueError without any."""
    if not labels:
        raise ValueError("no labels to agree with")
    table = Counter((right, said is True) for right, said in labels)
    n, met = len(labels), table[True, True] + table[False, False]
    low, high = wilson(met, n)
    value, _ = cohen_kappa(table, n)
    kappa_low, kappa_high = kappa_bounds(table, value)
    return Agreement(
        n=n,
        share=100 * met / n,
        low=low,
        high=high,
        kappa=value,
        kappa_low=kappa_low,
        kappa_high=kappa_high,
        false_correct=table[False, True],
        false_incorrect=table[True, False],
        unknown=sum(said is None for _, said in labels),
    )


def kappa_bounds(table: Mapping[tuple[bool, bool], float], value: float) -> tuple[float, float]:
    """95 % interval of kappa, with half a label more in each cell: without it few labels that all agree would prove too much."""
    if math.isnan(value):
        return math.nan, math.nan
    more = {(i, j): table[i, j] + 0.5 for i in (True, False) for j in (True, False)}
    middle, error = cohen_kappa(more, sum(more.values()))
    return max(-1.0, min(value, middle - Z95 * error)), min(1.0, max(value, middle + Z95 * error))


def cohen_kappa(table: Mapping[tuple[bool, bool], float], n: float) -> tuple[float, float]:
    """Cohen's kappa of a 2 x 2 table and its standard error for large n (Fleiss, Cohen and Everitt 1969)."""
    kinds = (True, False)
    p = {(i, j): table[i, j] / n for i in kinds for j in kinds}
    row = {i: p[i, True] + p[i, False] for i in kinds}
    column = {j: p[True, j] + p[False, j] for j in kinds}
    observed, expected = sum(p[i, i] for i in kinds), sum(row[i] * column[i] for i in kinds)
    if expected == 1:
        return math.nan, math.nan
    value = (observed - expected) / (1 - expected)
    same = sum(p[i, i] * (1 - (row[i] + column[i]) * (1 - value)) ** 2 for i in kinds)
    other = (1 - value) ** 2 * sum(p[i, j] * (column[i] + row[j]) ** 2 for i in kinds for j in kinds if i != j)
    variance = (same + other - (value - expected * (1 - value)) ** 2) / (n * (1 - expected) ** 2)
    return value, math.sqrt(max(0.0, variance))
