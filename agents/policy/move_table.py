"""The table of moves: what a kind of move has brought under such evidence, by real runs (`benchmarks/planner/table.py`).

`move_table.json` holds for each kind the weights of `FEATURES` for the gain and for the improvement, which is the gain with
losses counted as 0: what does not help is not kept. Gains lean to one side, so the improvement is learned by itself. A kind
that the table does not know, or a table that cannot be read, gets the flat prior.
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
FEATURES = ("one", "room", "unparsed", "doubt", "short", "fitted", "epochs", "strength", "contradicted")
PRIOR_COUNT = 2  # experiments that the table weighs as much as
LUCK = 0.2  # of the logarithm of a move's worth: moves that are worth about the same take turns
NORMAL = NormalDist()


class Kind(Frozen):
    """A kind of move: weights of FEATURES, in points, for the gain and for the improvement.

    `spread`: standard deviation of gains around what the weights say, in points; `count`: moves behind them.
    """

    weights: tuple[FiniteFloat, ...]
    improvement: tuple[FiniteFloat, ...]
    spread: float = Field(gt=0, allow_inf_nan=False)
    count: int = 0


def predicted(weights: Sequence[float], evidence: Sequence[float]) -> float:
    """Points that such evidence lets expect."""
    return sum(w * f for w, f in zip(weights, evidence, strict=True))


NONE = (0.0,) * len(FEATURES)
FLAT = Kind(weights=NONE, improvement=(0.8, *NONE[1:]), spread=2.0)


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
        if any({len(kind.weights), len(kind.improvement)} != {many} for kind in self.kinds.values()):
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

    What this run's own experiments of the kind brought weighs against `PRIOR_COUNT` experiments of the table.
    """
    gains, residuals = results(case.situation.brief.journal)
    ranked = []
    for move in moves:
        kind = table.kinds.get(move.kind, FLAT)
        weight = PRIOR_COUNT + len(gains[move.kind])
        evidence = features(case, move)
        gain = predicted(kind.weights, evidence) + sum(residuals[move.kind]) / weight
        seen = sum(max(0.0, one) for one in gains[move.kind])
        improvement = (PRIOR_COUNT * max(0.0, predicted(kind.improvement, evidence)) + seen) / weight
        luck = Random(f"{seed} {move.kind}").gauss(0, LUCK)
        ranked.append(RankedMove(move, gain, kind.spread, math.exp(luck) * improvement / duration_ratio(case, move)))
    return sorted(ranked, key=lambda one: (-one.worth, -one.move.strength))


def results(journal: Sequence[JournalRow]) -> tuple[Mapping[str, list[float]], Mapping[str, list[float]]]:
    """By kind of move, what this run's experiments gained, and how much more that was than expected of them."""
    gains, residuals = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for row in journal:
        if row.gain is not None and row.hypothesis.expected_gain is not None:
            gains[row.hypothesis.move].append(row.gain)
            residuals[row.hypothesis.move].append(row.gain - row.hypothesis.expected_gain)
    return gains, residuals


def duration_ratio(case: Case, move: Move) -> float:
    """The time of an experiment with the move, as a multiple of the incumbent's; half of that went into training.

    By steps, not by clock: else a busy machine would change the journal.
    """
    e, k = case.evidence, case.parameter_map
    now = k.steps_of(case.training, e.rows)
    return 0.5 + 0.5 * k.steps_of(move.training, e.rows) * move.step_cost / max(1, now)
