"""The response surface: a Gaussian process fitted to real runs, over what a recipe's rows are like and its training values.

One kernel width a feature, found by the most likely fit under a mild prior; numpy alone. Shares are fitted as
`asin(sqrt(p))`, where counting items makes the same noise everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.rows import Made
from planner.space import Point

Array = npt.NDArray[np.float64]
KNOWN = ("till", "choice", "chains")  # a feature each; a family that is none of them is like `stories`
FEATURES = (
    *KNOWN, "log rows", "wrong", "false steps", "compact", "spaced", "prose", "worded", "unknown", "log questions",
    "products", "lean", "overlong", "lora", "log rate", "log steps", "log rank", "log epochs", "log way",
)  # fmt: skip
# Widths that are likely before anything was seen, in the unit of each feature.
USUAL = (2.0, 2.0, 2.0, 1.5, 0.4, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 1.5, 0.5, 0.8, 2.0, 1.0, 1.0, 1.2, 3.0, 2.0, 1.0)
DOUBT = 0.7  # of the logarithm of a width
NOISE = 0.06  # usual residual on the scale of the fit; counting 200 items alone makes 0.035
LORA_RATE = 3.0  # adapters bear so many times the rate, by the parameter server's own suggestions for this model
ROUNDS = 12


def features(family: str, made: Made, point: Point) -> Array:
    """One row of numbers, in the order of FEATURES."""
    epochs = point.steps * 16 / max(1, made.rows)
    return np.array(
        [
            *(float(family == known) for known in KNOWN),
            math.log(made.rows + 10),
            made.wrong,
            made.false_steps,
            made.compact,
            made.spaced,
            made.prose,
            made.worded,
            made.unknown,
            math.log(made.unique * made.rows + 10),
            made.products,
            made.lean,
            made.overlong,
            float(point.method == "lora"),
            math.log(point.rate),
            math.log(point.steps),
            math.log2(point.rank or 16),
            math.log(epochs + 0.1),
            math.log(point.steps * point.rate / (LORA_RATE if point.method == "lora" else 1)),
        ]
    )


@dataclass(frozen=True)
class Scale:
    """How a target is fitted, and back."""

    there: Callable[[Array], Array]
    back: Callable[[Array], Array]


SHARE = Scale(lambda p: np.arcsin(np.sqrt(np.clip(p, 0, 1))), lambda t: np.sin(np.clip(t, 0, math.pi / 2)) ** 2)
POSITIVE = Scale(lambda x: np.log(np.maximum(x, 1e-4)), np.exp)
PLAIN = Scale(lambda x: x, lambda x: x)


@dataclass(frozen=True)
class Fit:
    """A fitted process: widths (log), noise and the weights of the runs."""

    scale: Scale
    x: Array
    widths: Array
    spread: float
    noise: float
    centre: float
    weights: Array

    def at(self, x: Array) -> Array:
        """The mean at rows of features, on the target's own scale."""
        k = self.spread**2 * kernel(x, self.x, self.widths)
        return np.asarray(self.scale.back(self.centre + k @ self.weights), dtype=np.float64)

    def near(self, x: Array) -> Array:
        """How alike each run is to one row of features, 0 to 1."""
        return np.asarray(kernel(x[None, :], self.x, self.widths)[0])


def kernel(a: Array, b: Array, widths: Array) -> Array:
    """Likeness of rows."""
    gap = (a[:, None, :] - b[None, :, :]) / np.exp(widths)
    return np.asarray(np.exp(-0.5 * (gap**2).sum(-1)))


def fit(x: Array, y: Array, scale: Scale = SHARE, rounds: int = ROUNDS) -> Fit:
    """The most likely widths, spread and noise, one after the other until nothing is gained."""
    t = scale.there(y)
    centre, sd = float(t.mean()), float(max(t.std(), 1e-3))
    start = np.concatenate([np.log(USUAL), [math.log(sd), math.log(NOISE)]])
    best, found = start, worth(start, start, x, t - centre)
    step = 0.6
    for _ in range(rounds):
        moved = False
        for i in range(len(best)):
            for sign in (step, -step):
                tried = best.copy()
                tried[i] += sign
                if (value := worth(tried, start, x, t - centre)) > found:
                    best, found, moved = tried, value, True
                    break
        if not moved:
            step /= 2
    spread, noise = float(np.exp(best[-2])), float(np.exp(best[-1]))
    k = spread**2 * kernel(x, x, best[:-2]) + noise**2 * np.eye(len(x))
    weights = np.asarray(np.linalg.solve(k, t - centre), dtype=np.float64)
    return Fit(scale, x, best[:-2], spread, noise, centre, weights)


def worth(values: Array, usual: Array, x: Array, t: Array) -> float:
    """Log likelihood of the runs and of the values."""
    spread, noise = np.exp(values[-2]), np.exp(values[-1])
    k = spread**2 * kernel(x, x, values[:-2]) + (noise**2 + 1e-8) * np.eye(len(x))
    try:
        low = np.linalg.cholesky(k)
    except np.linalg.LinAlgError:
        return -math.inf
    half = np.linalg.solve(low, t)
    prior = float((((values - usual) / DOUBT) ** 2).sum())
    return float(-0.5 * half @ half - np.log(np.diag(low)).sum() - 0.5 * prior)


@dataclass(frozen=True)
class Surface:
    """Everything that a simulated experiment is made of; `runs` are the real ones that gave a score."""

    runs: tuple[dict[str, Any], ...]
    score: Fit
    parsed: Fit
    first_loss: Fit
    last_loss: Fit
    tail: Fit


def surface(runs: Sequence[dict[str, Any]], x: Array) -> Surface:
    """Fit all targets to real runs, `x` their features in the same order."""

    def of(name: str) -> Array:
        return np.array([float(run["training"][name]) for run in runs])

    return Surface(
        tuple(runs),
        fit(x, np.array([run["value"] for run in runs]) / 100),
        fit(x, np.array([run["parsed"] for run in runs]) / 100),
        fit(x, of("first_loss"), POSITIVE, 4),
        fit(x, of("last_loss"), POSITIVE, 4),
        fit(x, of("tail_slope"), PLAIN, 4),
    )


def held_out(x: Array, y: Array, folds: int = 10) -> Array:
    """Every run predicted by a fit to the runs of other folds. `y`: shares."""
    order = np.random.default_rng(0).permutation(len(y))
    said = np.zeros(len(y))
    for fold in range(folds):
        out = order[fold::folds]
        kept = np.setdiff1d(order, out)
        said[out] = fit(x[kept], y[kept], rounds=6).at(x[out])
    return said


def explained(said: Array, y: Array) -> tuple[float, float]:
    """R² and mean absolute error of what was said."""
    rest = float(((said - y) ** 2).sum() / max(1e-9, ((y - y.mean()) ** 2).sum()))
    return 1 - rest, float(np.abs(said - y).mean())
