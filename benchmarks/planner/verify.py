"""Is the surface right where it counts? What it calls best, and what the policy ships by it, trained for real on an unseen seed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.collect import run
from planner.made_task import family
from planner.play import DATA, Bench
from planner.players import offline
from planner.regret import best_of, played
from planner.simulated_task import SimulatedTask
from planner.space import Point
from planner.surface import Surface

FIRST, SHIPPED, BEST = "the policy's first", "the policy's best", "the surface's best"
TRIALS, EXPERIMENTS = 3, 8  # of the policy on each surface


@dataclass(frozen=True)
class Claim:
    """A recipe and the score that a surface gives it, 0 to 1."""

    what: str
    surface: int
    point: Point
    score: float


@dataclass(frozen=True)
class Verified:
    """What was claimed of a recipe, and its real score in percent; None where it failed."""

    claims: tuple[Claim, ...]
    real: float | None


def claims(bench: Bench, task: str, surfaces: Sequence[Surface]) -> Iterator[Claim]:
    """Three of each surface; the policy has the table that was made without the task's family."""
    site, row_maker = bench.at(task)
    policy, data = offline(bench.table(family(task))), bench.data(site.arena, row_maker, DATA)
    for i, one in enumerate(surfaces):
        simulated = SimulatedTask(site.arena, row_maker, one, bench.base(task), family(task))
        trials = played(simulated, policy, range(TRIALS), EXPERIMENTS)
        points = [point for trial in trials for point in trial.points if point]
        scores = {point: found.score for point in points if (found := simulated.truth(point))}
        first, best = trials[0].points[0], max(scores, key=lambda point: scores[point])
        top, recipe = best_of(simulated, data, points)
        if first is not None:
            yield Claim(FIRST, i, first, scores.get(first, 0.0))
        yield from (Claim(SHIPPED, i, best, scores[best]), Claim(BEST, i, recipe, top))


def verify(bench: Bench, task: str, surfaces: Sequence[Surface]) -> Iterator[Verified]:
    """Each recipe trained once, about a minute each."""
    found = dict[Point, list[Claim]]()
    for claim in claims(bench, task, surfaces):
        found.setdefault(claim.point, []).append(claim)
    for number, (point, said) in enumerate(found.items(), 1):
        site = bench.at(task)[0]
        shutil.rmtree(site.ctx.run.experiment(2000 + number).root, ignore_errors=True)  # of another recipe, cut short
        yield Verified(tuple(said), run(site, 2000 + number, point).get("value"))


def told(task: str, one: Verified) -> str:
    """A line of a table in Markdown."""
    said = "; ".join(f"{claim.what}, {100 * claim.score:.0f} by surface {claim.surface + 1}" for claim in one.claims)
    return f"| {task} | {said} | {'failed' if one.real is None else f'{one.real:.1f}'} |"
