"""All players on all tasks over one surface: from the file of real runs to curves of regret."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from planner import rows as rows_module
from planner.arena import Arena, Site, site
from planner.collect import BEST, DRAWN
from planner.made_task import family
from planner.players import Asked, Player, RandomSearch, chat, offline
from planner.regret import Curve, best_of, curve, joined, played
from planner.rows import Made, RowMaker
from planner.simulated_task import SimulatedTask
from planner.space import Point, loaded
from planner.surface import Array, Surface, explained, features, held_out, surface
from planner.table import Seen, walk
from planner.tasks import FAMILIES
from planner.tpe import TpeSearch
from tuneloop.agents.policy import row_operations
from tuneloop.agents.policy.move_table import MoveTable
from tuneloop.core.files import digest, digest_file, read_json, write_json
from tuneloop.core.settings import Settings, load_settings

UNSEEN = tuple(name + seed for name in FAMILIES for seed in ("11", "12"))  # no real run of these is in the surface
TAUGHT = ("21", "22")  # seeds of each family on which the table of moves is learned
WAYS = 8
ENOUGH = 30  # real runs of a family, from which on the table learns from it
SURFACES = 5
DATA = 160  # data parts that random search draws from, themselves drawn uniformly

Say = Callable[[str], None]


@dataclass(frozen=True)
class Extent:
    """How much is simulated: trials of random search, of the policy and of TPE, and data parts."""

    tasks: tuple[str, ...] = UNSEEN
    random: int = 200
    policy: int = 30
    chat: int = 3
    data: int = DATA


@dataclass(frozen=True)
class Fitted:
    """Surfaces, each without another part of the real runs, and how runs are predicted by fits that do not know them.

    `r2`, `error`: of recipes that were drawn; `beside`: mean error of those about the policy's first; `best`: of those that
    a surface called best. Errors are shares.
    """

    surfaces: tuple[Surface, ...]
    runs: int
    r2: float
    error: float
    beside: float
    best: float


@dataclass(frozen=True)
class Played:
    """A task's outcome; `best` is the surface's highest score, `moves` the policy's first trial on each surface."""

    task: str
    best: float
    recipe: Point
    base: float
    curves: tuple[Curve, ...]
    moves: tuple[str, ...]
    projected: tuple[str, ...]


class Bench:
    """Tasks that are open, the makers of their rows, and the real runs."""

    def __init__(self, runs: Sequence[dict[str, Any]], settings: Settings, stack: ExitStack, say: Say) -> None:
        self.runs, self.settings, self.say = list(runs), settings, say
        self._stack = stack
        self._open: dict[str, tuple[Site, RowMaker]] = {}
        self._tables: dict[str, MoveTable] = {}
        self.good = [run for run in runs if run["number"] and "value" in run]

    def at(self, task: str) -> tuple[Site, RowMaker]:
        """A task and the maker of its rows, opened once."""
        if task not in self._open:
            here = self._stack.enter_context(site(task, self.settings))
            self._open[task] = here, RowMaker(here.arena)
        return self._open[task]

    @functools.cached_property
    def x(self) -> Array:
        """Features of the runs that gave a score, from their rows made again."""
        return np.stack([self._features(run) for run in self.good])

    def learn(self, run: dict[str, Any]) -> None:
        """One run more."""
        self.runs.append(run)
        if "value" in run:
            self.x = np.vstack([self.x, self._features(run)])
            self.good.append(run)

    def base(self, task: str) -> dict[str, Any]:
        """The real evaluation of the untouched model on the task's family."""
        return next(run for run in self.runs if run["number"] == 0 and family(run["task"]) == family(task))

    def table(self, without: str = "") -> MoveTable:
        """The table of moves by the real runs of all families but one."""
        if without not in self._tables:
            there = Counter(family(run["task"]) for run in self.good)
            chosen = [
                i for i, run in enumerate(self.good)
                if family(run["task"]) != without and there[family(run["task"])] >= ENOUGH
            ]  # fmt: skip
            kept, seen = [self.good[i] for i in chosen], Seen()
            fitted, families = surface(kept, self.x[chosen]), sorted({family(run["task"]) for run in kept})
            for task in (name + seed for name in families for seed in TAUGHT):
                here, row_maker = self.at(task)
                simulated = SimulatedTask(here.arena, row_maker, fitted, self.base(task), family(task))
                walk(simulated, self.data(here.arena, row_maker, DATA // 4), range(WAYS), seen)
                self.say(f"table without {without or 'none'}: {task}")
            counts = Counter(run["task"] for run in kept)
            self._tables[without] = seen.table(counts)
        return self._tables[without]

    def fitted(self) -> Fitted:
        """Fit the surface; every run's features come from its rows made again."""
        good, x = self.good, self.x
        y = np.array([run["value"] for run in good]) / 100
        self.say(f"surface: {len(good)} real runs")
        said, kinds = held_out(x, y), np.digitize([run["number"] for run in good], (DRAWN, BEST), right=True)
        (r2, error), (_, beside), (_, best) = (explained(said[kinds == kind], y[kinds == kind]) for kind in range(3))
        order = np.random.default_rng(1).permutation(len(good))
        kept = [np.setdiff1d(order, order[fold::SURFACES]) for fold in range(SURFACES)]
        surfaces = tuple(surface([good[i] for i in some], x[some]) for some in kept)
        return Fitted(surfaces, len(good), r2, error, beside, best)

    def _features(self, run: dict[str, Any]) -> Array:
        point = self.at(run["task"])[0].arena.space.renamed(loaded(run["point"]))
        return features(family(run["task"]), self.at(run["task"])[1].stats(point), point)

    def play(self, task: str, fitted: Fitted, extent: Extent) -> Played:
        """All players on one task."""
        here, row_maker = self.at(task)
        base = self.base(task)
        data = self.data(here.arena, row_maker, extent.data)
        policy = offline(self.table(family(task)))
        players: list[tuple[Player, int]] = [(RandomSearch(data), extent.random), (policy, extent.policy)]
        players.append((TpeSearch(), extent.policy))
        if (settings := load_settings()).chat_model and extent.chat:
            folder = self.settings.home.root / "chat"
            players.append((chat(settings, here.ctx.run, folder), extent.chat))
        found: dict[str, list[Curve]] = {player.name: [] for player, _ in players}
        tops, moves = [], []
        for i, one in enumerate(fitted.surfaces):
            self.say(f"{task}: surface {i + 1} of {len(fitted.surfaces)}")
            simulated = SimulatedTask(here.arena, row_maker, one, base, family(task))
            trials = {p.name: played(simulated, p, range(i + 1, n + 1, len(fitted.surfaces))) for p, n in players}
            moves.append(trials[policy.name][0])
            tops.append(best_of(simulated, data, [p for many in trials.values() for t in many for p in t.points if p]))
            for name, many in trials.items():
                if many:
                    found[name].append(curve(name, task, many, tops[-1][0], base["value"] / 100, i))
        return Played(
            task, float(np.mean([top for top, _ in tops])), tops[0][1], base["value"] / 100,
            tuple(joined(curves, task) for curves in found.values()),
            tuple(f"{row.outcome} {row.value}: {row.hypothesis.statement}" for t in moves for row in t.journal),
            tuple(sorted({said for p, _ in players if isinstance(p, Asked) for said in p.projected})),
        )  # fmt: skip

    def data(self, arena: Arena, row_maker: RowMaker, count: int) -> list[Point]:
        """Data parts drawn uniformly; what their rows are like is kept while code and task stay."""
        rng = Random(f"data {arena.made.name}")
        points = [arena.space.draw(rng) for _ in range(count)]
        code = [digest_file(Path(str(module.__file__))) for module in (row_operations, rows_module)]
        kept = self.settings.home.root / "rows" / f"{arena.made.name}-{digest(*code)}.json"
        known: dict[str, dict[str, Any]] = read_json(kept) if kept.is_file() else {}
        for i, point in enumerate(points):
            key = json.dumps(point.data)
            if key not in known:
                known[key] = asdict(row_maker.stats(point))
                write_json(kept, known)
            row_maker.learn(point, Made(**known[key]))
            if i % 40 == 39:
                self.say(f"{arena.made.name}: rows of {i + 1} of {count} data parts")
        return points
