"""Simulated runs whose truth is known, promoted and claimed by `tools/statistics/` itself.

Items are fixed and every model answers an item once: right where its ability plus noise exceeds the item's difficulty.
The base model is right on 60 %. The effect of an experiment adds to the true accuracy of the incumbent that it builds on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np

from tuneloop.tools.statistics import Paired, Precision, smallest_gain

BASE, SEALED = 0.6, 500
DIFFER = 0.11  # share of items on which two equal models differ
NORMAL = NormalDist()
WIDTH = 2 * NORMAL.inv_cdf(0.975)  # of the normal interval, in standard errors

Rule = Callable[[Paired], bool]


def measures_better(found: Paired) -> bool:
    """The rule of a run."""
    return found.better


@functools.cache
def noise_for(differ: float) -> float:
    """The noise with which two models that are right on 60 % differ on this share of the items."""
    low, high = 0.01, 4.0
    for _ in range(40):
        noise = (low + high) / 2
        low, high = (noise, high) if differing(noise) < differ else (low, noise)
    return low


def differing(noise: float, grid: int = 1_000) -> float:
    """Share of items on which two models that are right on 60 % differ."""
    ability = NORMAL.inv_cdf(BASE) * math.hypot(1, noise)
    right = [NORMAL.cdf((ability - NORMAL.inv_cdf((i + 0.5) / grid)) / noise) for i in range(grid)]
    return fmean(2 * p * (1 - p) for p in right)


class Items:
    """A split: items of random difficulty, each a cluster of its own."""

    def __init__(self, count: int, rng: np.random.Generator, differ: float = DIFFER) -> None:
        self.rng, self.noise = rng, noise_for(differ)
        self.difficulty = rng.standard_normal(count, dtype=np.float32)
        self.clusters = ("",) * count

    def answers(self, accuracy: float) -> list[float]:
        """Item values of a model of this true accuracy."""
        ability = NORMAL.inv_cdf(accuracy) * math.hypot(1, self.noise)
        luck = self.rng.standard_normal(len(self.difficulty), dtype=np.float32)
        right = ability + self.noise * luck > self.difficulty
        values: list[float] = right.astype(float).tolist()
        return values


@dataclass(frozen=True)
class Scenario:
    """Experiments whose effects are drawn from a normal distribution, in points, and the validation items."""

    mean: float
    spread: float
    experiments: int
    items: int

    def __str__(self) -> str:
        """As rows name it."""
        return f"N({self.mean:g}, {self.spread:g}²), {self.experiments} experiments, {self.items:,} items"


def climb(scenario: Scenario, rng: np.random.Generator, rule: Rule = measures_better) -> Iterator[float | None]:
    """True accuracy of the incumbent after each experiment; None while it is the base model."""
    items, truth, promoted = Items(scenario.items, rng), BASE, False
    values = items.answers(BASE)
    for effect in rng.normal(scenario.mean, scenario.spread, scenario.experiments).tolist():
        accuracy = min(0.99, max(0.01, truth + effect / 100))
        candidate = items.answers(accuracy)
        if rule(Paired(candidate, values, items.clusters)):
            truth, values, promoted = accuracy, candidate, True
        yield truth if promoted else None


@dataclass(frozen=True)
class Opening:
    """What a sealed test shows of a candidate, and what is true; points."""

    truth: float
    gain: float
    low: float
    high: float
    normal_width: float
    p_value: float
    claimed: bool

    @property
    def delivered(self) -> float:
        """True gain of what the run delivers. The base model is kept where the candidate measures below it."""
        return 0.0 if self.gain < 0 else self.truth

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high

    @property
    def disputed(self) -> bool:
        """Whether only one of test and interval excludes that both models are equal."""
        return (self.p_value <= 0.05) != (self.low > 0 or self.high < 0)


def open_sealed(accuracy: float, rng: np.random.Generator, differ: float = DIFFER) -> Opening:
    """Measure base model and candidate on a sealed test."""
    sealed = Items(SEALED, rng, differ)
    found = Paired(sealed.answers(accuracy), sealed.answers(BASE), sealed.clusters)
    variance = fmean(d * d for d in found.differences) - (found.gain / 100) ** 2
    normal_width = 100 * WIDTH * math.sqrt(variance / SEALED)
    return Opening(100 * (accuracy - BASE), found.gain, *found.bounds, normal_width, found.p_value, found.claimed)


def whole_run(scenario: Scenario, rng: np.random.Generator) -> Opening | None:
    """Experiments, then the sealed test. None where nothing was promoted: there is no candidate to open it for."""
    *_, accuracy = climb(scenario, rng)
    return None if accuracy is None else open_sealed(accuracy, rng)


def run_of_told_gain(differ: float, rng: np.random.Generator) -> Opening:
    """A candidate whose true gain is the one that this sealed test is said to show, before the base is measured."""
    told = smallest_gain(Precision(SEALED, SEALED))
    return open_sealed(BASE + told / 100, rng, differ)
