"""A campaign without an engine: experiments are answered by the surface, judged by the loop's own code, told by its own types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from planner.arena import Arena
from planner.rows import Kitchen
from planner.space import Point
from planner.surface import Array, Surface, features
from tuneloop.core.brief import Brief, Budget, JournalRow
from tuneloop.core.errors import ToolError
from tuneloop.core.experiment import Critique, Hypothesis, Training
from tuneloop.core.score import Decision, ItemResult, Score
from tuneloop.tools.compare import decide, share, wilson
from tuneloop.tools.failures import explain

ITEMS, COUNTED = 200, 0.5 / math.sqrt(200)
ALIKE = 0.6  # correlation of two models' answers; `tools/compare/power.py` assumes the same
NEIGHBOURS, CURVE = 8, 12
STEP_SECONDS = 0.15
SILENCE = {"prediction": "", "parsed": None, "answer": "0"}
SIMULATED = ("evaluation_explain_failures", "data_report", "training_loss_curve")


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
class World:
    """One task: its space, its rows, the surface. `base`: the real evaluation of the untouched model."""

    arena: Arena
    kitchen: Kitchen
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
        made = self.kitchen.stats(point)
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


class Trial:
    """One campaign of `budget` experiments; noise depends on the seed alone. A Toolbox for whoever plans it."""

    def __init__(self, world: World, budget: int, seed: int) -> None:
        self.world, self.budget = world, budget
        self.rng = np.random.default_rng(seed)
        self.hard = self.rng.standard_normal(ITEMS)
        self.journal: list[JournalRow] = []
        self.scores: dict[int, Score] = {}
        self.trainings: dict[int, Training] = {}
        self.points: list[Point | None] = []
        self.shipped: list[float] = []
        self.spent: list[int] = []
        self.incumbent = self.untouched = untouched(world.base)
        self.best = world.base["value"] / 100

    @property
    def brief(self) -> Brief:
        """As the graph would tell it."""
        left = self.budget - len(self.journal)
        changes: dict[str, Any] = {
            "experiment": len(self.journal) + 1,
            "journal": tuple(self.journal),
            "budget": Budget(experiments_left=left, seconds_left=None),
            "baseline": self.untouched.model_copy(update={"items": ()}),
            "wishes": self.world.arena.space.wishes,
        }
        return self.world.arena.brief.model_copy(update=changes)

    def experiment(self, point: Point) -> tuple[Score, Training, Decision] | None:
        """Run a recipe; None when it fails. `close` must follow."""
        self.points.append(point)
        truth = self.world.truth(point)
        if truth is None:
            return None
        found, number = self._score(truth), len(self.journal) + 1
        self.scores[number], self.trainings[number] = found, trained(truth, point)
        divisor = share(self.budget - len(self.journal), self.spent)
        self.spent.append(divisor)
        decision = decide(found, self.incumbent, divisor)
        if decision.accepted:
            self.incumbent, self.best = found, truth.score
        return found, self.trainings[number], decision

    def close(self, idea: Hypothesis, found: tuple[Score, Training, Decision] | None, critique: Critique) -> None:
        """Write it into the journal."""
        self.shipped.append(self.best)
        told: dict[str, Any] = {"rows": 0, "training": None, "failure": "no row was left after the data gate"}
        if found is not None:
            one, training, decision = found
            told = {"rows": training.rows, "training": training, "failure": None}
            told |= {"value": one.value, "low": one.low, "high": one.high, "parsed": one.parsed}
            told |= {"p_value": decision.comparison.p_value}
        names = ("value", "low", "high", "parsed", "p_value")
        outcome = "failed" if found is None else "accepted" if found[2].accepted else "rejected"
        row = dict.fromkeys(names) | told
        self.journal.append(
            JournalRow(
                number=len(self.journal) + 1, outcome=outcome, hypothesis=idea, blame=critique.blame,
                lesson=critique.lesson, **row,
            )
        )  # fmt: skip

    def skip(self) -> None:
        """A turn without an idea: an experiment is spent and nothing is learned."""
        self.points.append(None)
        self.shipped.append(self.best)
        self.budget -= 1

    def _score(self, truth: Truth) -> Score:
        extra = math.sqrt(max(0.0, self.world.surface.score.noise**2 - COUNTED**2))
        angle = math.asin(math.sqrt(truth.score)) + extra * float(self.rng.standard_normal())
        p = min(0.999, max(0.001, math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2))
        mood = math.sqrt(ALIKE) * self.hard + math.sqrt(1 - ALIKE) * self.rng.standard_normal(ITEMS)
        right = [bool(v) for v in mood < NormalDist().inv_cdf(p)]
        lost = min(1.0, max(0.0, (1 - truth.parsed) / max(1e-6, 1 - truth.score)))
        readable = self.world.replies(truth.x, readable=True)
        silent = self.world.replies(truth.x, readable=False) or [SILENCE]
        said = [
            silent[int(self.rng.integers(len(silent)))]
            if self.rng.random() < lost or not readable
            else readable[int(self.rng.integers(len(readable)))]
            for _ in right
        ]
        return score([str(f["answer"]) for f in said], right, said)

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What the real server would say: of this campaign's experiments by simulation, of data and parameters for real."""
        number = int(arguments.get("experiment", 0))
        if tool == "evaluation_explain_failures":
            return self._failures(number, int(arguments.get("count", 10)))
        if tool in SIMULATED and number not in self.trainings:
            raise ToolError(f"experiment {number} has nothing yet")
        if tool == "data_report":
            return {"rows": self.trainings[number].rows, "dropped": {}}
        if tool == "training_loss_curve":
            return {"experiment": number, "points": curve(self.trainings[number])}
        if tool.startswith(("data_", "params_")):
            return await self.world.arena.tools.call(tool, **arguments)
        raise ToolError(f"{tool} has nothing to say in a simulated campaign")

    async def names(self) -> Sequence[str]:
        """What may be asked."""
        return tuple({*SIMULATED, *await self.world.arena.tools.names()})

    async def cards(self) -> Sequence[Any]:
        """Of the tools of `names`, as the real servers describe them."""
        told = await self.world.arena.tools.cards()
        names = await self.names()
        return [card for card in told if card.name in names]

    def _failures(self, number: int, count: int) -> dict[str, Any]:
        if number and number not in self.scores:
            raise ToolError(f"experiment {number} has no score")
        if number == 0:
            return {"items": self.world.base["failures"][:count], "failed": self.world.base["items"].count("0")}
        one = self.scores[number]
        prompts = {item.id: "" for item in one.items}
        return explain(one, prompts, self.brief.task.max_new_tokens, count=count)


def untouched(base: dict[str, Any]) -> Score:
    """The base model's score, item by item as recorded."""
    right = [mark == "1" for mark in base["items"]]
    return score(["0"] * len(right), right, [SILENCE] * len(right)).model_copy(update={"parsed": base["parsed"]})


def score(answers: Sequence[str], right: Sequence[bool], said: Sequence[dict[str, Any]]) -> Score:
    """A score of items; those that are right say nothing of interest."""
    items = tuple(
        ItemResult.model_construct(
            id=f"validation-{i:03}", prediction="" if ok else str(f["prediction"]), parsed=answer if ok else f["parsed"],
            answer=answer, correct=ok, value=float(ok), group="", cluster="", error="", extra={},
        )
        for i, (answer, ok, f) in enumerate(zip(answers, right, said, strict=True))
    )  # fmt: skip
    n, good = len(items), sum(right)
    low, high = wilson(good, n)
    return Score(
        benchmark="simulated", split="validation", metric="accuracy", value=100 * good / n, low=low, high=high, n=n,
        parsed=100 * sum(item.parsed is not None for item in items) / n, items=items,
    )  # fmt: skip


def trained(truth: Truth, point: Point) -> Training:
    """What the journal would say of the training."""
    return Training(
        steps=point.steps, seconds=STEP_SECONDS * point.steps, rows=truth.rows, first_loss=truth.first_loss,
        last_loss=truth.last_loss, tail_slope=truth.tail, method="lora" if point.method == "lora" else "full",
    )  # fmt: skip


def curve(training: Training) -> list[dict[str, float]]:
    """A falling loss between the two that are fitted."""
    fall = [(i / CURVE, math.exp(-4 * i / CURVE)) for i in range(CURVE + 1)]
    a, b = training.first_loss, training.last_loss
    return [{"step": max(1, round(t * training.steps)), "loss": round(b + (a - b) * part, 4)} for t, part in fall]
