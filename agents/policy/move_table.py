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
VERSION = 2
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


ZERO = (0.0,) * len(FEATURES)
FLAT = Kind(weights=ZERO, improvement=(0.8, *ZERO[1:]), spread=2.0)


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
    loss = e.training.last_loss if e.training and math.isfinite(e.training.last_loss) else 1.0
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
    """A move with what it may bring, in points: `improvement` is the gain with losses counted as 0.

    `worth`: improvement in an incumbent's time, by which moves are ranked.
    """

    move: Move
    kind: Kind
    gain: float
    improvement: float
    worth: float

    @property
    def interval(self) -> tuple[float, float]:
        """Four in five gains lie within; what is measured differs by the chance of its items, too."""
        reach = NORMAL.inv_cdf(0.9) * self.kind.spread
        return self.gain - reach, self.gain + reach


def rank_moves(case: Case, moves: Sequence[Move], table: MoveTable, seed: str) -> list[RankedMove]:
    """The moves, the most worth first: expected improvement a minute. The same `seed` gives the same order.

    What this run's own experiments of the kind brought weighs against `PRIOR_COUNT` experiments of the table.
    """
    gains, residuals = results(case.situation.brief.journal, case.situation.task.direction)
    most = 100 * min(1.0, case.room)
    ranked = []
    for move in moves:
        kind, evidence = kind_of(case, move, table), features(case, move)
        told, own, off = predicted(kind.weights, evidence), gains[move.kind], residuals[move.kind]
        gain = min(most, told + sum(off) / (PRIOR_COUNT + len(off)))
        improvement = max(0.0, told, predicted(kind.improvement, evidence))
        improvement = (PRIOR_COUNT * improvement + sum(max(0.0, one) for one in own)) / (PRIOR_COUNT + len(own))
        improvement = min(most, improvement)
        luck = Random(f"{seed} {move.kind}").gauss(0, LUCK)
        worth = math.exp(luck) * improvement / duration_ratio(case, move)
        ranked.append(RankedMove(move, kind, gain, improvement, worth))
    return sorted(ranked, key=lambda one: (-one.worth, -one.move.strength))


def kind_of(case: Case, move: Move, table: MoveTable) -> Kind:
    """The flat prior for what the table does not know: of methods it knows only what they bring to a tiny model."""
    apart = move.aspect == "method" and not case.situation.card.tiny
    return FLAT if apart else table.kinds.get(move.kind, FLAT)


Points = Mapping[str, list[float]]


def results(journal: Sequence[JournalRow], direction: str) -> tuple[Points, Points]:
    """By kind of move, what this run's experiments gained on their parents, and how much more that was than the table told."""
    sign = 1 if direction == "max" else -1
    values = {row.number: row.value for row in journal}
    gains, residuals = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for row in journal:
        planned, before = row.hypothesis, values.get(row.hypothesis.parent or 0)
        gain = row.gain if row.value is None or before is None else sign * (row.value - before)
        if planned.move and gain is not None:
            gains[planned.move].append(gain)
            if planned.expected_gain is not None:  # it holds what was corrected by then
                off = residuals[planned.move]
                off.append(gain - planned.expected_gain + sum(off) / (PRIOR_COUNT + len(off)))
    return gains, residuals


def duration_ratio(case: Case, move: Move) -> float:
    """The time of an experiment with the move, as a multiple of the incumbent's; half of that went into training.

    By steps, not by clock: else a busy machine would change the journal.
    """
    e, k = case.evidence, case.parameter_map
    now = k.steps_of(case.training, e.rows)
    return 0.5 + 0.5 * k.steps_of(move.training, e.rows) * move.step_cost / max(1, now)
