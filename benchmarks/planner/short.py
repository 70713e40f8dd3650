"""Does a quarter of the steps rank recipes as the whole training does? Of each family some real runs, made again shorter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.collect import SHORT, known
from planner.made_task import family
from planner.surface import Array

ENOUGH = 0.8  # rank correlation from which on short experiments could choose for whole ones
FEWEST = 4


@dataclass(frozen=True)
class Agreement:
    """Spearman's rank correlation of a family's scores after a quarter of the steps and after all, 95 % by bootstrap."""

    family: str
    runs: int
    rho: float
    low: float
    high: float


def chosen(runs: Sequence[dict[str, Any]], task: str, count: int) -> list[int]:
    """Numbers of so many of a task's runs, from the worst score to the best at even distances."""
    measured = sorted(
        (run["value"], run["number"]) for run in runs if run["task"] == task and run["number"] and "value" in run
    )
    places = np.linspace(0, len(measured) - 1, min(count, len(measured))).round().astype(int)
    return [measured[i][1] for i in places]


def agreements(runs: Sequence[dict[str, Any]]) -> list[Agreement]:
    """By family, of at least `FEWEST` runs that were made both ways; a recipe that broke has the score 0."""
    whole = {(run["task"], run["number"]): run for run in runs}
    pairs: dict[str, list[tuple[float, float]]] = {}
    for run in known(SHORT):
        values = (run.get("value", 0.0), whole[run["task"], run["number"]].get("value", 0.0))
        pairs.setdefault(family(run["task"]), []).append(values)
    return [agreement(name, np.array(of)) for name, of in sorted(pairs.items()) if len(of) >= FEWEST]


def agreement(name: str, scores: Array, times: int = 2000) -> Agreement:
    """Of scores, a row a recipe: short, whole."""
    rng = np.random.default_rng(0)
    drawn = [rank_correlation(*scores[rng.integers(len(scores), size=len(scores))].T) for _ in range(times)]
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return Agreement(name, len(scores), rank_correlation(*scores.T), float(low), float(high))


def rank_correlation(one: Array, other: Array) -> float:
    """Spearman's; values that are equal share their mean rank. NaN where one side has a single value."""
    a, b = ranks(one), ranks(other)
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else float("nan")


def ranks(values: Array) -> Array:
    """Places in order, from 0."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return ((last - count + last - 1) / 2)[place]
