"""The table of moves, learned: every move that the policy sees on simulated ways is answered by the surface of real runs.

Ways begin at the policy's first recipe or at a random one, and each takes moves at random, so that no planner's taste is
learned. A kind's weights are ridge regressions, of gain and of improvement, on evidence; its spread is what gains leave.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from planner.simulate import Trial
from planner.simulated_task import SimulatedTask
from planner.space import Point
from planner.surface import Array
from tuneloop.agents.policy.evidence import parent_of
from tuneloop.agents.policy.move_table import FEATURES, Kind, MoveTable, features
from tuneloop.agents.policy.moves import Move
from tuneloop.agents.policy.researcher import find_moves, propose_hypothesis
from tuneloop.core.experiment import Critique, Hypothesis

STEPS = 6
USUAL = 15.0  # points: how large a weight usually is
STRENGTH = FEATURES.index("strength")
DOUBT = ("noise.", "coverage.without")  # kinds whose strength is doubt that they spare, or let in again
COST = 30.0  # points: what labels usually cost that are all in doubt, where ways show too few such moves
LEAST = 0.5  # points: no spread is taken to be smaller


@dataclass(frozen=True)
class Row:
    """A move on one way: its evidence and what it gained, in points."""

    way: str
    evidence: tuple[float, ...]
    gain: float


@dataclass
class Seen:
    """What moves brought on simulated ways, by kind."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def table(self, runs: Mapping[str, int]) -> MoveTable:
        """The table, a regression a kind."""
        kinds = {kind: regressed(rows, spares=kind.startswith(DOUBT)) for kind, rows in sorted(self.rows.items())}
        return MoveTable(kinds=kinds, runs=dict(runs))


def regressed(rows: Sequence[Row], *, spares: bool = False) -> Kind:
    """One kind. Moves of one way are much alike: together they count as one. `spares`: its strength is doubt that it spares."""
    x, y = np.array([row.evidence for row in rows]), np.array([row.gain for row in rows])
    ways = Counter(row.way for row in rows)
    count = np.array([1 / ways[row.way] for row in rows])
    (gain, spread), (improvement, _) = (fitted(x, of, count, spares=spares) for of in (y, np.maximum(y, 0)))
    return Kind(weights=gain, improvement=improvement, spread=spread, count=len(rows))


def fitted(x: Array, y: Array, count: Array, *, spares: bool) -> tuple[tuple[float, ...], float]:
    """A ridge regression in which doubt that is spared does not speak against a move, whatever chance says."""
    found = ridge(x, y, count, COST if spares else 0.0)
    return ridge(np.delete(x, STRENGTH, 1), y, count, missing=STRENGTH) if spares and found[0][STRENGTH] < 0 else found


def ridge(
    x: Array, y: Array, count: Array, cost: float = 0.0, missing: int | None = None
) -> tuple[tuple[float, ...], float]:
    """Bayesian ridge regression, the spread found by turns: weights, and the spread of `y` around what they say.

    `cost`: what the weight of the strength is usually, the others about 0. `missing`: the place of a column that was taken out,
    whose weight is 0.
    """
    usual = np.where(np.arange(x.shape[1]) == STRENGTH, cost, 0.0)
    spread = max(LEAST, float(np.sqrt(np.average((y - np.average(y, weights=count)) ** 2, weights=count))))
    for _ in range(5):
        precision = (x.T * count) @ x / spread**2 + np.eye(x.shape[1]) / USUAL**2
        weights = np.linalg.solve(precision, (x.T * count) @ y / spread**2 + usual / USUAL**2)
        spread = max(LEAST, float(np.sqrt(np.average((y - x @ weights) ** 2, weights=count))))
    if missing is not None:
        weights = np.insert(weights, missing, 0.0)
    return tuple(round(float(w), 2) for w in weights), round(spread, 2)


def walk(simulated: SimulatedTask, starts: Sequence[Point], seeds: Iterable[int], seen: Seen) -> None:
    """A way for each seed, in turn from the policy's first recipe and from a random one."""
    for seed in seeds:
        rng = Random(f"way {simulated.arena.made.name} {seed}")
        start = rng.choice(starts) if seed % 2 else None
        asyncio.run(_walk(Trial(simulated, STEPS, seed), start, rng, seen))


async def _walk(trial: Trial, start: Point | None, rng: Random, seen: Seen) -> None:
    way = f"{trial.simulated.arena.made.name} {rng.random()}"
    space = trial.simulated.arena.space
    idea = space.hypothesis(start) if start else await propose_hypothesis(trial.brief, trial, MoveTable())
    for _ in range(STEPS):
        found = trial.experiment(space.point(idea)[0])
        trial.close(idea, found, Critique(explanation="", lesson=""))
        incumbent = parent_of(trial.journal, "max")
        if incumbent is None:
            return
        case, moves = await find_moves(trial.brief, trial, incumbent)
        here = trial.points[case.evidence.number - 1]
        assert here is not None
        for move in moves:
            if (gain := gain_of(trial.simulated, here, as_idea(move))) is not None:
                seen.rows[move.kind].append(Row(way, features(case, move), gain))
        if not moves:
            return
        idea = as_idea(rng.choice(moves))


def gain_of(simulated: SimulatedTask, here: Point, idea: Hypothesis) -> float | None:
    """Points that the surface gives the move; None where the space has no such recipe."""
    then, _ = simulated.arena.space.point(idea)
    before, after = simulated.truth(here), simulated.truth(then)
    if then == here or before is None:
        return None
    return 100 * ((after.score if after else 0.0) - before.score)


def as_idea(move: Move) -> Hypothesis:
    """A move as the researcher would put it."""
    return Hypothesis(
        statement=move.statement,
        reason=move.reason,
        disproof="it gains nothing",
        aspect=move.aspect,
        data_plan=move.plan,
        training_plan=move.training,
    )
