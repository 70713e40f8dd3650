"""Texts that mean the same: steps by the angle between their vectors, keywords as sets. No library is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]
CLOSE = 0.7


def steps(wanted: Sequence[Vector], found: Sequence[Vector]) -> tuple[float, float]:
    """Share of wanted steps that some found step is close to, and of found steps that some wanted one is close to."""
    if not wanted or not found:
        return 0.0, 0.0
    close = [[cosine(w, f) >= CLOSE for f in found] for w in wanted]
    return sum(map(any, close)) / len(wanted), sum(map(any, zip(*close, strict=True))) / len(found)


def cosine(a: Vector, b: Vector) -> float:
    """0 where one has no direction."""
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def keywords(wanted: set[str], found: set[str]) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 without any in common."""
    hits = len(wanted & found)
    if not hits:
        return 0.0, 0.0, 0.0
    return hits / len(found), hits / len(wanted), 2 * hits / (len(wanted) + len(found))
