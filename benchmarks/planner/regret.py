"""Regret: how far the shipped recipe is from the best of the space, as a share of what there is to gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from planner.players import Player, anew
from planner.simulate import Trial, World
from planner.space import Point
from planner.surface import Array, features

BUDGET = 8
CANDIDATES = 20_000  # recipes among which the best is looked for


@dataclass(frozen=True)
class Curve:
    """Regrets after each experiment, a row a trial; shares of (best - untouched model)."""

    player: str
    task: str
    regrets: Array

    def mean(self, after: int) -> float:
        """Over trials."""
        return float(self.regrets[:, after - 1].mean())

    def interval(self, after: int) -> tuple[float, float]:
        """95 %, bootstrap over trials."""
        return bootstrap(self.regrets[:, after - 1], lambda rows: rows.mean(-1))


def bootstrap(values: Array, of: Callable[[Array], Array], times: int = 2000) -> tuple[float, float]:
    """Between which 95 % of the statistic lie when the values are drawn again."""
    rng = np.random.default_rng(0)
    drawn = of(values[rng.integers(len(values), size=(times, len(values)))])
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def ratio(policy: Array, other: Array, times: int = 2000) -> tuple[float, float, float]:
    """Mean of one over mean of the other, with its 95 % interval, both sides drawn again."""
    rng = np.random.default_rng(0)
    a, b = (v[rng.integers(len(v), size=(times, len(v)))].mean(-1) for v in (policy, other))
    low, high = np.quantile(a / np.maximum(b, 1e-9), (0.025, 0.975))
    return float(policy.mean() / max(1e-9, other.mean())), float(low), float(high)


def best_of(
    world: World, data: Sequence[Point], seen: Sequence[Point], candidates: int = CANDIDATES
) -> tuple[float, Point]:
    """The highest score of the surface over a large uniform sample and everything that anyone tried; and its recipe."""
    rng = Random("best")
    points = [anew(world.arena.space.draw(rng), rng.choice(data)) for _ in range(candidates)]
    points = [p for p in (*points, *dict.fromkeys(seen)) if world.kitchen.stats(p).rows]
    x = np.stack([features(world.family, world.kitchen.stats(p), p) for p in points])
    s = world.surface
    scores = np.minimum(s.score.at(x), s.parsed.at(x))
    i = int(scores.argmax())
    return float(scores[i]), points[i]


def played(world: World, player: Player, trials: int, budget: int = BUDGET) -> list[Trial]:
    """Trials with seeds 1, 2 and so on."""
    done = []
    for seed in range(1, trials + 1):
        trial = Trial(world, budget, seed)
        player.play(trial, seed)
        done.append(trial)
    return done


def curve(name: str, task: str, trials: Sequence[Trial], best: float, base: float) -> Curve:
    """Regrets of trials."""
    shipped = np.array([[max(base, value) for value in t.shipped] for t in trials])
    return Curve(name, task, (best - shipped) / (best - base))
