"""Is the surface right where it counts? What it calls best, and what the policy ships by it, trained for real on an unseen seed.

A surface is wrong first where it is highest. So what it calls best on the seeds behind it is trained, too, and becomes one
of its runs (`record_best`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from planner.collect import BEST, RUNS, beside_first, collect, run
from planner.made_task import family
from planner.play import DATA, Bench
from planner.players import offline
from planner.regret import best_of, played
from planner.simulated_task import SimulatedTask
from planner.space import Point, loaded
from planner.surface import Surface, surface

FIRST, SHIPPED, TOP = "the policy's first", "the policy's best", "the surface's best"
TRIALS, EXPERIMENTS = 3, 8  # of the policy on each surface
NEAR = 60  # recipes about the policy's first, among which the best is looked for besides the uniform sample


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
        yield from (Claim(SHIPPED, i, best, scores[best]), Claim(TOP, i, recipe, top))


def verify(bench: Bench, task: str, surfaces: Sequence[Surface]) -> Iterator[Verified]:
    """Each recipe trained once, about a minute each."""
    found = dict[Point, list[Claim]]()
    for claim in claims(bench, task, surfaces):
        found.setdefault(claim.point, []).append(claim)
    for number, (point, said) in enumerate(found.items(), 1):
        site = bench.at(task)[0]
        shutil.rmtree(site.ctx.run.experiment(2000 + number).root, ignore_errors=True)  # of another recipe, cut short
        yield Verified(tuple(said), run(site, 2000 + number, point).get("value"))


def record_best(bench: Bench, task: str) -> tuple[float, dict[str, Any]] | None:
    """What the surface of all runs calls best: its claim in percent and the run, now recorded; None where it was one already."""
    site, row_maker = bench.at(task)
    simulated = SimulatedTask(site.arena, row_maker, surface(bench.good, bench.x), bench.base(task), family(task))
    rng = Random(f"best {task}")
    near = [beside_first(site.arena, rng) for _ in range(NEAR)]
    score, point = best_of(simulated, bench.data(site.arena, row_maker, DATA), near)
    runs = {row["number"]: row for row in bench.runs if row["task"] == task and row["number"]}
    if point in (site.arena.space.renamed(loaded(row["point"])) for row in runs.values()):
        return None
    row = collect(site, max((BEST, *runs)) + 1, RUNS, lambda *_: point)
    if row is None:
        raise RuntimeError(f"another process records runs of {task}, too")
    bench.learn(row)
    return 100 * score, row


def told(task: str, one: Verified) -> str:
    """A line of a table in Markdown."""
    said = "; ".join(f"{claim.what}, {100 * claim.score:.0f} by surface {claim.surface + 1}" for claim in one.claims)
    return f"| {task} | {said} | {'failed' if one.real is None else f'{one.real:.1f}'} |"
