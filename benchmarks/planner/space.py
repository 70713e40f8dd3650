"""The recipe space that every player of the bench draws from: what the offline policy's own library can do, within bounds.

A recipe is a point: which sources, which operations of the library with the options that the profile gives them, how
solutions are written, and the training values. Reading, the benchmark's form and the choice of rows are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from tuneloop.agents.policy.data_plan import (
    ORDER,
    Plan,
    agreement_step,
    candidate_sources,
    final_steps,
    off_topic_step,
    rewrite_step,
    sources_in,
    with_sources,
    with_step,
)
from tuneloop.agents.policy.parameter_map import FULL, LORA, ParameterMap, Values, as_number
from tuneloop.agents.policy.situation import DataSource, Situation
from tuneloop.core.directive import Bound
from tuneloop.core.experiment import Hypothesis, Step

# The policy turns these where answers are letters, and `trust_key` nowhere here, as replies may hold steps everywhere. No
# recorded run has `finish_steps`, so what it does here is not known.
LETTERS_ONLY = ("drop_unlikely_labels", "balance_answers")
ELSEWHERE = (*LETTERS_ONLY, "trust_key", "finish_steps")
FIXED = ("use_source", "drop_unanswered", "answer_format")
STYLES = ("own_words", "as_is", "compact", "spaced", "answer_only")
VOTES = ("none", "voted", "confirmed")
TURNED = tuple(
    do
    for do in ORDER
    if do not in (*ELSEWHERE, *FIXED, "rewrite_equations", "answer_only", "keep_agreed")
)  # fmt: skip
RATES, STEPS, RANKS = (1e-4, 1e-2), (20, 400), (8, 16, 32, 64)
LEAST_TOKENS = 40
BALANCE = 1.2  # times the mean, as the policy balances what came out one-sided


@dataclass(frozen=True)
class Point:
    """One recipe. `does`: operations of the space's `turned` that are on; `rank` is 0 for full training."""

    sources: tuple[str, ...]
    style: str
    votes: str
    does: tuple[str, ...]
    method: str
    rate: float
    steps: int
    rank: int

    def dumped(self) -> dict[str, Any]:
        """As a record."""
        return asdict(self)

    @property
    def data(self) -> tuple[object, ...]:
        """What settles the training rows."""
        return (self.sources, self.style, self.votes, self.does)


def loaded(told: dict[str, Any]) -> Point:
    """A point from its record."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items()}
    return Point(**values)


@dataclass(frozen=True)
class Space:
    """The space of one task; sources on the task's topic, as the policy sees them."""

    situation: Situation
    parameter_map: ParameterMap

    @property
    def sources(self) -> list[DataSource]:
        """Those that hold questions and answers of the benchmark's shape."""
        return sorted(candidate_sources(self.situation), key=lambda s: s.id)

    @property
    def turned(self) -> tuple[str, ...]:
        """Operations that are on or off: TURNED, and where answers are letters those that look at letters."""
        return (*TURNED, *LETTERS_ONLY) if self.situation.facts.answer_shape == "letter" else TURNED

    @property
    def directives(self) -> tuple[Bound, ...]:
        """The bounds as a user would ask for them, so that every planner knows them."""
        ends = ((self.parameter_map.rate, RATES), (self.parameter_map.steps, STEPS), (self.parameter_map.rank, RANKS))
        return tuple(Bound(parameter=name, at_least=found[0], at_most=found[-1]) for name, found in ends)

    def renamed(self, point: Point) -> Point:
        """A stored point with the files' names in the view: what lost sealed rows is JSON Lines there and says so."""
        names = {s.id.removesuffix(".jsonl"): s.id for s in self.sources}
        return replace(point, sources=tuple(names.get(s.removesuffix(".jsonl"), s) for s in point.sources))

    def draw(self, rng: Random) -> Point:
        """Uniform: any set of sources but none, each operation with even odds, rate and steps on a logarithmic scale."""
        names = [s.id for s in self.sources]
        chosen = rng.randrange(1, 2 ** len(names))
        method = rng.choice((FULL, LORA))
        return Point(
            sources=tuple(name for i, name in enumerate(names) if chosen >> i & 1),
            style=rng.choice(STYLES),
            votes=rng.choice(VOTES),
            does=tuple(do for do in self.turned if rng.random() < 0.5),
            method=method,
            rate=float(f"{math.exp(rng.uniform(*map(math.log, RATES))):.3g}"),
            steps=round(math.exp(rng.uniform(*map(math.log, STEPS)))),
            rank=rng.choice(RANKS) if method == LORA else 0,
        )

    def plan(self, point: Point) -> Plan:
        """The data plan of a point, in the policy's own words."""
        chosen = [s for s in self.sources if s.id in point.sources]
        if len(chosen) != len(point.sources):
            raise ValueError(f"sources {point.sources}: there are {[s.id for s in self.sources]}")
        plan = with_sources((), chosen)
        for step in [Step(do="drop_unanswered"), *self._turned(point, chosen), *self._written(point), *FORM]:
            plan = with_step(plan, step.do, step.why, **step.options)
        return plan

    def _turned(self, point: Point, chosen: Sequence[DataSource]) -> list[Step]:
        longest = max(s.profile.solution_lengths.max for s in self.sources)
        room = int(max(2.0 * self.situation.task.max_new_tokens, LEAST_TOKENS))
        asked = self.situation.longest_question
        known = {step.do: step for step in final_steps(self.situation, self.sources)}
        steps = {
            "drop_off_topic": off_topic_step(self.situation, 1.0),
            "repair_from_key": Step(do="repair_from_key", options={"at_least": 0.6}),
            "require_steps": Step(do="require_steps", options={"equations_at_least": 2}),
            "cap_length": Step(do="cap_length", options={"question": asked, "solution": min(room, longest)}),
            "drop_unlikely_labels": Step(do="drop_unlikely_labels", options={"folds": 5, "least": 0.1}),
            "balance_answers": Step(do="balance_answers", options={"most": BALANCE}),
            **{do: known[do] for do in ("select",) if do in known},
        }
        found = [steps.get(do, Step(do=do)) for do in point.does]
        if point.votes != "none":
            agree = agreement_step(chosen, "")
            sure = {**agree.options, "need_votes": [s.id for s in chosen]}
            found.append(agree if point.votes == "voted" else agree.model_copy(update={"options": sure}))
        return found

    def _written(self, point: Point) -> list[Step]:
        if point.style == "own_words":
            return []
        return [Step(do="answer_only")] if point.style == "answer_only" else [rewrite_step(point.style, "")]

    def training(self, point: Point) -> Values:
        """The training plan of a point."""
        k = self.parameter_map
        values: Values = {k.method: point.method, k.rate: point.rate, k.steps: point.steps}
        return values | ({k.rank: point.rank} if point.method == LORA else {})

    def hypothesis(self, point: Point) -> Hypothesis:
        """A point as a researcher would put it."""
        return Hypothesis(
            statement="A recipe of the space.",
            reason="drawn",
            disproof="validation stays where it is",
            aspect="first",
            data_plan=self.plan(point),
            training_plan=self.training(point),
        )

    def point(self, idea: Hypothesis, rows: float = 1000) -> tuple[Point, tuple[str, ...]]:
        """The nearest point to an idea, and in words what had to give way."""
        plan, values, k = idea.data_plan, dict(idea.training_plan), self.parameter_map
        said: list[str] = []
        names = tuple(sorted(s.id for s in sources_in(plan, self.situation) if s in self.sources))
        if not names:
            names = tuple(s.id for s in self.sources)
            said.append("no source that can be read: all were taken")
        dos = {step.do: step for step in plan}
        for do in dos.keys() - {*self.turned, *FIXED, "rewrite_equations", "answer_only", "keep_agreed"}:
            said.append(f"{do} is not in the space")
        method = str(values.get(k.method, FULL))
        begun = k.begun(method if method in (FULL, LORA) else LORA)
        method = str(begun[k.method])
        rate = as_number(values.get(k.rate, begun[k.rate]))
        steps, rank = k.steps_of(values, rows), int(as_number(values.get(k.rank, 32))) if method == LORA else 0
        bound = Point(
            sources=names,
            style=style_of(dos),
            votes=votes_of(dos, names),
            does=tuple(do for do in self.turned if do in dos),
            method=method,
            rate=min(max(rate, RATES[0]), RATES[1]),
            steps=min(max(steps, STEPS[0]), STEPS[1]),
            rank=min(max(rank, RANKS[0]), RANKS[-1]) if rank else 0,
        )
        for name, wanted in (("rate", rate), ("steps", steps), ("rank", rank)):
            if getattr(bound, name) != wanted:
                said.append(f"{name} {wanted:g} became {getattr(bound, name):g}")
        return bound, tuple(said)


FORM = (Step(do="answer_format"),)


def style_of(dos: dict[str, Step]) -> str:
    """How the plan writes solutions."""
    if "answer_only" in dos:
        return "answer_only"
    rewritten = dos.get("rewrite_equations")
    spacing = str(rewritten.options.get("spacing", "as_is")) if rewritten else "own_words"
    return spacing if spacing in STYLES else "as_is"


def votes_of(dos: dict[str, Step], names: Sequence[str]) -> str:
    """Which rows the plan lets agree."""
    agree = dos.get("keep_agreed")
    if agree is None:
        return "none"
    need = agree.options.get("need_votes", [])
    return "confirmed" if isinstance(need, list) and set(names) <= set(need) else "voted"
