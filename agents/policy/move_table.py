"""The table of moves: what a kind of move has brought under such evidence, by real runs (`benchmarks/planner/table.py`).

`move_table.json` holds for each kind the weights of `FEATURES`, the spread of gains around them, both in points, and from
how many moves they come. A kind that it does not know, or a table that cannot be read, gets the flat prior.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Self

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from tuneloop.agents.policy.data_moves import mean_doubt
from tuneloop.agents.policy.moves import Case, Move
from tuneloop.core.brief import JournalRow
from tuneloop.core.frozen import Frozen

FILE = Path(__file__).with_name("move_table.json")
VERSION = 1
FEATURES = ("one", "room", "unparsed", "doubt", "short", "fitted", "epochs", "strength", "shown", "contradicted")
PRIOR_COUNT = 2  # experiments that the table weighs as much as
LUCK = 0.2  # of the logarithm of a move's worth: moves that are worth about the same take turns
NORMAL = NormalDist()


class Kind(Frozen):
    """A kind of move: `weights` of FEATURES and the `root` of their covariance, its rows from the first feature on.

    `spread`: standard deviation of gains around what the weights say, in points; `count`: moves behind them.
    """

    weights: tuple[FiniteFloat, ...]
    root: tuple[tuple[FiniteFloat, ...], ...] = ()
    spread: float = Field(gt=0, allow_inf_nan=False)
    count: int = 0

    def gain(self, evidence: Sequence[float]) -> float:
        """Points that such evidence lets expect."""
        return sum(w * f for w, f in zip(self.weights, evidence, strict=True))

    def doubt(self, evidence: Sequence[float]) -> float:
        """How far that may be off, in points: much where the evidence is unlike all that was seen."""
        columns = zip(*(row + (0.0,) * (len(self.root) - len(row)) for row in self.root), strict=True)
        return math.hypot(*(sum(a * f for a, f in zip(column, evidence, strict=True)) for column in columns))


FLAT = Kind(weights=(0.0,) * len(FEATURES), spread=2.0)


class MoveTable(Frozen):
    """`runs`: which real runs are behind it."""

    version: int = VERSION
    features: tuple[str, ...] = FEATURES
    kinds: dict[str, Kind] = {}
    runs: dict[str, int] = {}

    @model_validator(mode="after")
    def shaped(self) -> Self:
        """Raises ValueError where a kind has more or fewer weights than there are features."""
        many = len(self.features)
        rows = [[len(row) for row in kind.root] for kind in self.kinds.values() if kind.root]
        if any(len(kind.weights) != many for kind in self.kinds.values()) or any(
            r != [*range(1, many + 1)] for r in rows
        ):
            raise ValueError(f"a kind has not {many} weights")
        return self


@cache
def load_table(path: Path = FILE) -> MoveTable:
    """The shipped table; a flat one, with a word in the log, where it is missing, damaged or of another version."""
    try:
        table = MoveTable.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as e:
        why = "is missing" if isinstance(e, OSError) else "cannot be read"
    else:
        if (table.version, table.features) == (VERSION, FEATURES):
            return table
        why = "is of other evidence" if table.version == VERSION else f"has version {table.version}; right is {VERSION}"
    logging.getLogger(__name__).warning("%s %s: every move is expected to bring the same", path.name, why)
    return MoveTable()


def features(case: Case, move: Move) -> tuple[float, ...]:
    """The evidence for a move, in the order of FEATURES; each about 0 to 1."""
    e = case.evidence
    loss = e.training.last_loss if e.training else 1.0
    return (
        1.0,
        case.room,
        (100 - e.parsed) / 100,
        mean_doubt(case.sources, case.plan, case.situation),
        max(0.0, 1 - e.rows / max(1, case.situation.enough)),
        -math.log10(min(1.0, max(0.003, loss))) / 2,
        math.log2(1 + e.epochs) / 4,
        move.strength,
        move.shown,
        move.contradicted,
    )


@dataclass(frozen=True)
class RankedMove:
    """A move with what it may bring: `gain` and `spread` in points, `worth` in expected points an incumbent's time."""

    move: Move
    gain: float
    spread: float
    worth: float

    @property
    def interval(self) -> tuple[float, float]:
        """Four in five gains lie within."""
        reach = NORMAL.inv_cdf(0.9) * self.spread
        return self.gain - reach, self.gain + reach


def rank_moves(case: Case, moves: Sequence[Move], table: MoveTable, seed: str) -> list[RankedMove]:
    """The moves, the most worth first: expected improvement a minute. The same `seed` gives the same order.

    The doubt of the weights counts as spread, so that what is unlike all that was seen is worth a try.
    """
    learned = residuals(case.situation.brief.journal)
    ranked = []
    for move in moves:
        kind = table.kinds.get(move.kind, FLAT)
        told = learned[move.kind]
        weight = PRIOR_COUNT + len(told)
        evidence = features(case, move)
        gain = kind.gain(evidence) + sum(told) / weight
        doubt = kind.doubt(evidence) * math.sqrt(PRIOR_COUNT / weight)
        spread = math.hypot(kind.spread, doubt)
        luck = Random(f"{seed} {move.kind}").gauss(0, LUCK)
        worth = math.exp(luck) * expected_improvement(gain, spread) / duration_ratio(case, move)
        ranked.append(RankedMove(move, gain, spread, worth))
    return sorted(ranked, key=lambda one: -one.worth)


def residuals(journal: Sequence[JournalRow]) -> Mapping[str, list[float]]:
    """By kind of move, how much more this run's experiments gained than was expected of them."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in journal:
        if row.gain is not None and row.hypothesis.expected_gain is not None:
            found[row.hypothesis.move].append(row.gain - row.hypothesis.expected_gain)
    return found


def expected_improvement(mean: float, spread: float) -> float:
    """The mean of a normal gain, counted as 0 where it is a loss."""
    u = mean / spread
    return spread * (NORMAL.pdf(u) + u * NORMAL.cdf(u))


def duration_ratio(case: Case, move: Move) -> float:
    """The time of an experiment with the move, as a multiple of the incumbent's; half of that went into training.

    By steps, not by clock: else a busy machine would change the journal.
    """
    e, k = case.evidence, case.parameter_map
    now = k.steps_of(case.training, e.rows)
    return 0.5 + 0.5 * k.steps_of(move.training, e.rows) * move.step_cost / max(1, now)
