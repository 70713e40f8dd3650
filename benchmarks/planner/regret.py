"""Regret: how far the shipped recipe is from the best of the space, as a share of what there is to gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from planner.players import Player, anew
from planner.simulate import Trial
from planner.simulated_task import SimulatedTask
from planner.space import Point
from planner.surface import Array, features

BUDGET = 20
CANDIDATES = 20_000  # recipes among which the best is looked for


@dataclass(frozen=True)
class Curve:
    """Regrets after each experiment, a row a trial; shares of (best - untouched model). `surface`: which one it was on."""

    player: str
    task: str
    regrets: Array
    surface: Array

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
    simulated: SimulatedTask, data: Sequence[Point], seen: Sequence[Point], candidates: int = CANDIDATES
) -> tuple[float, Point]:
    """The highest score of the surface over a large uniform sample and everything that anyone tried; and its recipe."""
    rng = Random("best")
    points = [anew(simulated.arena.space.draw(rng), rng.choice(data)) for _ in range(candidates)]
    points = [p for p in (*points, *dict.fromkeys(seen)) if simulated.row_maker.stats(p).rows]
    x = np.stack([features(simulated.family, simulated.row_maker.stats(p), p) for p in points])
    s = simulated.surface
    scores = np.minimum(s.score.at(x), s.parsed.at(x))
    i = int(scores.argmax())
    return float(scores[i]), points[i]


def played(simulated: SimulatedTask, player: Player, seeds: Sequence[int], budget: int = BUDGET) -> list[Trial]:
    """A trial for each seed."""
    done = []
    for seed in seeds:
        trial = Trial(simulated, budget, seed)
        player.play(trial, seed)
        done.append(trial)
    return done


def curve(name: str, task: str, trials: Sequence[Trial], best: float, base: float, surface: int = 0) -> Curve:
    """Regrets of trials on one surface."""
    shipped = np.array([[max(base, value) for value in t.shipped] for t in trials])
    return Curve(name, task, (best - shipped) / (best - base), np.full(len(trials), surface, dtype=np.float64))


def joined(curves: Sequence[Curve], task: str) -> Curve:
    """Trials of one player on several surfaces or seeds of a task, as one."""
    regrets, surface = (np.concatenate([getattr(c, name) for c in curves]) for name in ("regrets", "surface"))
    return Curve(curves[0].player, task, regrets, surface)


def by_surface(policy: Curve, other: Curve, after: int) -> list[float]:
    """The ratio of means on each surface alone: how far it hangs on which real runs are behind it."""
    return [
        ratio(policy.regrets[policy.surface == i, after - 1], other.regrets[other.surface == i, after - 1], 1)[0]
        for i in sorted(set(policy.surface))
    ]
