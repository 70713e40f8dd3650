"""What is true of a task: the score, losses and replies of every recipe, by the surface."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.arena import Arena
from planner.rows import RowMaker
from planner.space import Point
from planner.surface import Array, Surface, features

NEIGHBOURS = 8


@dataclass(frozen=True)
class Truth:
    """What a recipe gives without noise; shares 0 to 1."""

    score: float
    parsed: float
    first_loss: float
    last_loss: float
    tail: float
    rows: int
    x: Array


@dataclass
class SimulatedTask:
    """One task: its space, its rows, the surface. `base`: the real evaluation of the untouched model."""

    arena: Arena
    row_maker: RowMaker
    surface: Surface
    base: dict[str, Any]
    family: str
    _known: dict[Point, Truth | None] = field(default_factory=dict)

    def truth(self, point: Point) -> Truth | None:
        """None where the data gate leaves no row."""
        if point not in self._known:
            self._known[point] = self._found(point)
        return self._known[point]

    def _found(self, point: Point) -> Truth | None:
        made = self.row_maker.stats(point)
        if made.rows == 0:
            return None
        x = features(self.family, made, point)
        one, s = x[None, :], self.surface
        score, parsed, first, last, tail = (
            float(f.at(one)[0]) for f in (s.score, s.parsed, s.first_loss, s.last_loss, s.tail)
        )
        return Truth(min(score, parsed), parsed, first, last, tail, made.rows, x)

    def replies(self, x: Array, *, readable: bool) -> list[dict[str, Any]]:
        """Failures that the nearest real runs of this family recorded."""
        order = np.argsort(-self.surface.score.near(x))
        ours = [i for i in order if self.surface.runs[i]["task"].startswith(self.family)]
        found = [[f for f in self.surface.runs[i]["failures"] if (f["parsed"] is not None) == readable] for i in ours]
        some = [rows for rows in found if rows][:NEIGHBOURS]
        return [row for rows in some for row in rows]
