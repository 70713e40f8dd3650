"""Means, and precision, recall and F1 from counts, in percent."""

from __future__ import annotations

from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """0 without values."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def percent(values: Iterable[float]) -> float:
    """100 times the mean."""
    return 100 * mean(values)


def precision_recall_f1(hits: int, wrong: int, missed: int) -> tuple[float, float, float]:
    """In percent; 0 where a denominator is 0. `wrong`: found but not there; `missed`: there but not found."""
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    recall = hits / (hits + missed) if hits + missed else 0.0
    f1 = 2 * hits / (2 * hits + wrong + missed) if hits else 0.0
    return 100 * precision, 100 * recall, 100 * f1
