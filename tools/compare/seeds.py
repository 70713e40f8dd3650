"""Several trainings of one recipe as one score: of every item the mean over seeds, so that a lucky seed is outvoted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tuneloop.core.score import GroupScore, ItemResult, Score
from tuneloop.tools.compare.intervals import interval


def pooled(scores: Sequence[Score]) -> Score:
    """The mean of scores on the same items; texts are the first one's. Raises ValueError when items differ."""
    first, *rest = scores
    if not rest:
        return first
    values = [{item.id: item.value for item in score.items} for score in scores]
    if any(found.keys() != values[0].keys() for found in values):
        raise ValueError("scores of several seeds are not of the same items")
    items = tuple(_mean(item, [found[item.id] for found in values]) for item in first.items)
    counted = [item.value if first.direction == "max" else 1 - item.value for item in items]
    low, high = interval(counted, [item.cluster for item in items])
    return first.model_copy(
        update={
            "value": fmean(score.value for score in scores),
            "low": low,
            "high": high,
            "parsed": fmean(score.parsed for score in scores),
            "metrics": {name: fmean(score.metrics[name] for score in scores) for name in first.metrics},
            "groups": {name: _group([score.groups[name] for score in scores]) for name in first.groups},
            "by_seed": tuple(score.value for score in scores),
            "items": items,
        }
    )


def _group(groups: Sequence[GroupScore]) -> GroupScore:
    value, parsed = fmean(group.value for group in groups), fmean(group.parsed for group in groups)
    return GroupScore(value=value, n=groups[0].n, parsed=parsed)


def _mean(item: ItemResult, values: Sequence[float]) -> ItemResult:
    value = fmean(values)
    return item.model_copy(update={"value": value, "correct": value == 1})
