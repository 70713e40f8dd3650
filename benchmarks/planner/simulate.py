"""A campaign without an engine: experiments are answered by the surface, judged by the loop's own code, told by its own types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from planner.outcomes import SILENCE, curve, score, trained, untouched
from planner.simulated_task import SimulatedTask, Truth
from planner.space import Point
from tuneloop.core.brief import Brief, BudgetLeft, JournalRow
from tuneloop.core.errors import ToolError
from tuneloop.core.experiment import Critique, Hypothesis, Training
from tuneloop.core.score import Decision, Score
from tuneloop.tools.scoring.failures import explain_failures
from tuneloop.tools.statistics import decide_promotion

ITEMS, COUNTED = 200, 0.5 / math.sqrt(200)
ALIKE = 0.6  # correlation of two models' answers; `tools/statistics/power.py` assumes the same
SIMULATED = ("evaluation_explain_failures", "data_report", "training_loss_curve")


class Trial:
    """One campaign of `budget` experiments; noise depends on the seed alone. A Toolbox for whoever plans it."""

    def __init__(self, simulated: SimulatedTask, budget: int, seed: int) -> None:
        self.simulated, self.budget = simulated, budget
        self.rng = np.random.default_rng(seed)
        self.hard = self.rng.standard_normal(ITEMS)
        self.journal: list[JournalRow] = []
        self.scores: dict[int, Score] = {}
        self.trainings: dict[int, Training] = {}
        self.points: list[Point | None] = []
        self.shipped: list[float] = []
        self.incumbent = self.untouched = untouched(simulated.base)
        self.best = simulated.base["value"] / 100

    @property
    def brief(self) -> Brief:
        """As the graph would tell it."""
        left = self.budget - len(self.journal)
        changes: dict[str, Any] = {
            "experiment": len(self.journal) + 1,
            "journal": tuple(self.journal),
            "budget": BudgetLeft(experiments_left=left, seconds_left=None),
            "baseline": self.untouched.bare,
            "directives": self.simulated.arena.space.directives,
        }
        return self.simulated.arena.brief.model_copy(update=changes)

    def experiment(self, point: Point) -> tuple[Score, Training, Decision] | None:
        """Run a recipe; None when it fails. `close` must follow."""
        self.points.append(point)
        truth = self.simulated.truth(point)
        if truth is None:
            return None
        found, number = self._score(truth), len(self.journal) + 1
        self.scores[number], self.trainings[number] = found, trained(truth, point)
        decision = decide_promotion(found, self.incumbent)
        if decision.promoted:
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
            gain = decision.comparison
            told |= {"gain": gain.gain, "gain_low": gain.low, "gain_high": gain.high}
        names = ("value", "low", "high", "parsed")
        outcome = "failed" if found is None else "promoted" if found[2].promoted else "not promoted"
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
        extra = math.sqrt(max(0.0, self.simulated.surface.score.noise**2 - COUNTED**2))
        angle = math.asin(math.sqrt(truth.score)) + extra * float(self.rng.standard_normal())
        p = min(0.999, max(0.001, math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2))
        mood = math.sqrt(ALIKE) * self.hard + math.sqrt(1 - ALIKE) * self.rng.standard_normal(ITEMS)
        right = [bool(v) for v in mood < NormalDist().inv_cdf(p)]
        lost = min(1.0, max(0.0, (1 - truth.parsed) / max(1e-6, 1 - truth.score)))
        readable = self.simulated.replies(truth.x, readable=True)
        silent = self.simulated.replies(truth.x, readable=False) or [SILENCE]
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
            return await self.simulated.arena.tools.call(tool, **arguments)
        raise ToolError(f"{tool} has nothing to say in a simulated campaign")

    async def names(self) -> Sequence[str]:
        """What may be asked."""
        return tuple({*SIMULATED, *await self.simulated.arena.tools.names()})

    async def cards(self) -> Sequence[Any]:
        """Of the tools of `names`, as the real servers describe them."""
        told = await self.simulated.arena.tools.cards()
        names = await self.names()
        return [card for card in told if card.name in names]

    def _failures(self, number: int, count: int) -> dict[str, Any]:
        if number and number not in self.scores:
            raise ToolError(f"experiment {number} has no score")
        if number == 0:
            return {"items": self.simulated.base["failures"][:count], "failed": self.simulated.base["items"].count("0")}
        one = self.scores[number]
        prompts = {item.id: "" for item in one.items}
        return explain_failures(one, prompts, self.brief.task.max_new_tokens, count=count)
