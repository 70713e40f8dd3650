"""What is told of measurements: scores without items, and how one model differs from another on the same items."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from tuneloop.core.score import Score
from tuneloop.tools.compare import claim
from tuneloop.tools.evaluating.measure import Measurement


def measured(one: Measurement) -> dict[str, Any]:
    """One model; never an item."""
    results = [
        {**score.model_dump(mode="json", exclude={"items"}), "errors": errors(score), "key": one.keys[name]}
        for name, score in one.scores.items()
    ]
    average = fmean(score.value for score in one.scores.values())
    said = {"name": one.subject.name, "model": one.subject.described}
    return {**said, "results": results, "average": average, "notes": list(one.notes)}


def errors(score: Score) -> int:
    """Items on which the scorer itself failed: wrong, and counted."""
    return sum(bool(item.error) for item in score.items)


def difference(one: Score, other: Score) -> dict[str, Any]:
    """`p_value`: how likely a difference of this size either way would be, were both models equal.

    Raises ValueError when the scores are not of the same items.
    """
    there, back = claim(one, other), claim(other, one)
    verdict = "better" if there.claimed else "worse" if back.claimed else "no difference shown"
    numbers = there.model_dump(include={"gain", "low", "high", "wins", "losses", "p_value"})
    return {"benchmark": one.benchmark, **numbers, "verdict": verdict}
