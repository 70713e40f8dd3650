"""Quantiles of Student's t for whole degrees of freedom, from the closed form of its distribution."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()
MANY = 1000  # from here on the expansion in 1 / df is exact to ten digits


@lru_cache(maxsize=4096)
def quantile(p: float, df: int) -> float:
    """The value that t with `df` degrees of freedom stays below with chance `p`. Raises ValueError outside 0.5 <= p < 1."""
    if not 0.5 <= p < 1 or df < 1:
        raise ValueError(f"no quantile of t for p = {p} and {df} degrees of freedom")
    if df >= MANY:
        return _expanded(NORMAL.inv_cdf(p), df)
    low, high = 0.0, 1.0
    while _below(high, df) < p:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, df) < p else (low, middle)
    return (low + high) / 2


def _below(t: float, df: int) -> float:
    """P(T <= t) for t >= 0: Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(df))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = df % 2
    term = math.cos(angle) if odd else 1.0
    total = term if df > 1 else 0.0
    for i in range(2 + odd, df - 1, 2):
        term *= square * (i - 1) / i
        total += term
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + inside / 2


def _expanded(z: float, df: int) -> float:
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3
