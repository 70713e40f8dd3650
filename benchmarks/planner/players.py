"""Who plays: random search, the offline policy through its own interface, a chat model through the planner of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from planner.simulate import Trial
from planner.space import RANKS, RATES, STEPS, Point, Space
from tuneloop.agents.agent import ask
from tuneloop.agents.critic import CRITIC
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.agents.policy.move_table import MoveTable
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.brief import Brief
from tuneloop.core.errors import RecipeError
from tuneloop.core.events import Event
from tuneloop.core.experiment import Critique
from tuneloop.core.layout import RunFolder
from tuneloop.core.protocols import Planner
from tuneloop.core.settings import Settings

RECIPES = """

## What a recipe can be here
Steps of `data_plan`, each once: use_source (options dataset, file: {sources}), answer_format, rewrite_equations (option
spacing: as_is, compact, spaced), answer_only, keep_agreed (options votes: 2, need_votes: list of sources), {turned}.
Keys of `training_plan`: {method} (full, lora), {rate} ({rates}), {steps} ({lengths}), {rank} ({ranks}).
"""


Prompt = Callable[[Brief, Space], str]


class Player(Protocol):
    """Plays one trial to its end."""

    name: str

    def play(self, trial: Trial, seed: int) -> None:
        """Make all experiments of the trial."""
        ...


class RandomSearch:
    """Draws every recipe uniformly from the space; data parts come from a uniform sample that is drawn once a task."""

    name = "random search"

    def __init__(self, data: Sequence[Point]) -> None:
        self._data = data

    def play(self, trial: Trial, seed: int) -> None:
        """Independent draws."""
        rng = Random(f"random {seed}")
        space = trial.simulated.arena.space
        for _ in range(trial.budget):
            point = anew(space.draw(rng), rng.choice(self._data))
            idea = space.hypothesis(point)
            trial.close(idea, trial.experiment(point), Critique(explanation="", lesson=""))


def anew(training: Point, data: Point) -> Point:
    """The training values of one point with the data of another; both were drawn independently."""
    return Point(
        data.sources, data.style, data.votes, data.does, training.method, training.rate, training.steps, training.rank
    )


class Asked:
    """A planner of the loop: its researcher proposes, its critic explains, each told what the graph would tell it."""

    def __init__(self, name: str, planner: Callable[[Trial, int], Planner], prompt: Prompt) -> None:
        self.name, self._planner, self._prompt = name, planner, prompt
        self.projected: list[str] = []
        self.silent = 0

    def play(self, trial: Trial, seed: int) -> None:
        """Ask until the budget is spent."""
        asyncio.run(self._play(trial, self._planner(trial, seed)))

    async def _play(self, trial: Trial, planner: Planner) -> None:
        for _ in range(trial.budget):
            await self._turn(trial, planner)

    async def _turn(self, trial: Trial, planner: Planner) -> None:
        brief, space = trial.brief, trial.simulated.arena.space
        try:
            idea = await ask(RESEARCHER, planner, self._prompt(brief, space), brief, trial)
        except RecipeError:
            self.silent += 1
            trial.skip()
            return
        point, said = space.point(idea)
        self.projected += said
        found = trial.experiment(point)
        trial.close(
            idea, found, await self._critique(trial, planner, brief.model_copy(update={"hypothesis": idea}), found)
        )

    async def _critique(self, trial: Trial, planner: Planner, brief: Brief, found: Any) -> Critique:
        changes: dict[str, Any] = {"failure": "no row was left after the data gate"}
        if found is not None:
            score, training, decision = found
            changes |= {
                "failure": "",
                "score": score.model_copy(update={"items": ()}),
                "training": training,
                "comparison": decision.comparison,
                "reasons": decision.reasons,
            }
        told = brief.model_copy(update=changes)
        try:
            return await ask(CRITIC, planner, CRITIC.prompt(told), told, trial)
        except RecipeError:
            return Critique(explanation="", lesson="")


def offline(table: MoveTable | None = None) -> Asked:
    """The policy that needs no model; prompts say nothing to it. `table`: of moves, in place of the shipped one."""
    return Asked("offline policy", lambda _trial, _seed: OfflinePolicy(table), lambda _brief, _space: "")


@dataclass(frozen=True)
class Place:
    """What the context of a chat planner wants of a run: the task's own, with transcripts apart for every trial."""

    run: RunFolder
    settings: Settings
    trial: Trial
    folder: Path
    slot: int = 0

    @property
    def number(self) -> int:
        """Of the experiment at hand."""
        return len(self.trial.points) + 1

    def transcript(self, agent: str) -> Path:
        """A file an answer."""
        return self.folder / f"{self.number}.{agent}.calls.jsonl"

    def emit(self, _event: Event) -> None:
        """Nobody watches."""


def chat(settings: Settings, run: RunFolder, folder: Path) -> Asked:
    """The model of CHAT_MODEL; its calls are recorded below `folder`. Where it fails for good, the policy answers."""
    from tuneloop.agents.chat.planner import ChatPlanner
    from tuneloop.graph.agent_calls.planner_context import make_planner_context

    def planner(trial: Trial, seed: int) -> Planner:
        where = folder / f"{trial.simulated.arena.made.name}.{seed}"
        return ChatPlanner(make_planner_context(Place(run, settings, trial, where)))

    return Asked(f"chat {settings.chat_model}", planner, lambda brief, space: RESEARCHER.prompt(brief) + recipes(space))


def recipes(space: Space) -> str:
    """The space in words."""
    k = space.parameter_map
    return RECIPES.format(
        sources=", ".join(s.id for s in space.sources), turned=", ".join(space.turned), method=k.method, rate=k.rate,
        rates="{:g} to {:g}".format(*RATES), steps=k.steps, lengths="{} to {}".format(*STEPS), rank=k.rank,
        ranks=f"{RANKS[0]} to {RANKS[-1]}",
    )  # fmt: skip
