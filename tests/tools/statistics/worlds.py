"""Made-up models of known truth, for simulations: what they score on each item, by kind of benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tuneloop.core.score import ItemResult, Score

Values = npt.NDArray[np.float64]
KINDS = ("right or wrong", "graded", "tables", "sampled")
KEPT = 0.7  # chance that a model answers an item, or a cluster, as another model of the same base does


def score(values: Sequence[float] | Values, clusters: Sequence[str] = (), **changed: Any) -> Score:
    """A score whose interval nobody reads."""
    labels = clusters or [""] * len(values)
    items = tuple(result(i, float(v), label) for i, (v, label) in enumerate(zip(values, labels, strict=True)))
    value = 100 * float(np.mean(values))
    given = {"benchmark": "b", "split": "validation", "metric": "m", "value": value, "low": 0, "high": 100}
    return Score.model_validate({**given, "n": len(items), "parsed": 0, "items": items, **changed})


@lru_cache(maxsize=100_000)  # making these is what simulations would spend their time on
def result(i: int, value: float, cluster: str) -> ItemResult:
    """One item's result, without texts."""
    return ItemResult(
        id=str(i), prediction="", parsed=None, answer="", correct=value == 1, value=value, cluster=cluster
    )


@dataclass(frozen=True)
class World:
    """Items of one kind, and models of one base that all know equally much."""

    kind: str
    rng: np.random.Generator
    units: int = 60
    sizes: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Items by unit: one, a table's questions, or four samples of a problem."""
        sizes = {"tables": self.rng.integers(1, 7, self.units), "sampled": np.full(self.units, 4)}
        object.__setattr__(self, "sizes", sizes.get(self.kind, np.ones(self.units, dtype=np.int64)))

    @property
    def clusters(self) -> list[str]:
        """Of each item."""
        if self.kind not in ("tables", "sampled"):
            return [""] * self.units
        return [f"c{i}" for i in np.repeat(np.arange(self.units), self.sizes)]

    def skill(self) -> Values:
        """How well a model does on each unit."""
        if self.kind == "right or wrong":
            return (self.rng.random(self.units) < 0.4).astype(float)
        return self.rng.beta(0.4, 0.7, self.units)

    def related(self, skill: Values) -> Values:
        """The skill of another model of the same base."""
        return np.where(self.rng.random(self.units) < KEPT, skill, self.skill())

    def answers(self, skill: Values) -> Values:
        """What a model of that skill scores on each item."""
        each = np.repeat(skill, self.sizes)
        if self.kind in ("right or wrong", "graded"):
            return each
        return (self.rng.random(len(each)) < each).astype(float)

    def better(self, skill: Values, points: float) -> Values:
        """A related skill that is better by so many points in truth: some units are solved whole."""
        raised = self.rng.random(self.units) < points / 100 / (1 - self.expected())
        return np.where(raised, 1.0, self.related(skill))

    def expected(self) -> float:
        """The mean of `skill` over all units there could be."""
        return 0.4 if self.kind == "right or wrong" else 0.4 / 1.1
