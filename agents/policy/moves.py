"""What could be changed next; one small coherent change a move. What a move is worth the table of moves says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tuneloop.agents.policy.data_plan import (
    Plan,
    find_step,
    followable,
    solution_limit,
    sources_in,
    with_step,
    without_steps,
)
from tuneloop.agents.policy.evidence import Evidence
from tuneloop.agents.policy.parameter_map import FULL, LORA, ParameterMap, Values, as_number, fit_steps
from tuneloop.agents.policy.script_composer import FORM
from tuneloop.agents.policy.situation import DataSource, Situation, mean
from tuneloop.core.brief import JournalRow


@dataclass(frozen=True)
class Move:
    """A change. `kind`: `aspect.name`, its row in the table; `strength`: how far it goes, or how much speaks for it.

    `contradicted`: the share of questions on which others contradict what a change of sources leaves out. `step_cost`: time of one
    training step, in steps of SFT.
    """

    kind: str
    statement: str
    reason: str
    plan: Plan
    training: Values
    strength: float = 0.0
    contradicted: float = 0.0
    step_cost: float = 1.0

    @property
    def aspect(self) -> str:
        """What is changed."""
        return self.kind.partition(".")[0]


@dataclass(frozen=True)
class Case:
    """Situation, evidence, the plan that led to it, and what can be turned."""

    situation: Situation
    evidence: Evidence
    parameter_map: ParameterMap

    @property
    def plan(self) -> Plan:
        """The data plan that was followed."""
        return followable(self.evidence.hypothesis.data_plan)

    @property
    def training(self) -> Values:
        """The training values that were used."""
        return self.parameter_map.values_of(self.evidence.hypothesis)

    @property
    def sources(self) -> list[DataSource]:
        """The sources that were read."""
        return sources_in(self.plan, self.situation)

    @property
    def room(self) -> float:
        """How far the score is from what is possible, 0 to 1."""
        value = self.evidence.value
        return (100 - value if self.situation.task.direction == "max" else value) / 100

    def move(
        self,
        kind: str,
        statement: str,
        reason: str,
        *,
        plan: Plan | None = None,
        training: Values | None = None,
        strength: float = 0.0,
    ) -> Move:
        """A change of the data plan, the training values, or both."""
        return Move(kind, statement, reason, plan or self.plan, training or self.training, strength)


def format_moves(case: Case) -> Iterator[Move]:
    """The scorer finds no answer, or replies do not end: ask and answer in its form, and shorter."""
    e, said = case.evidence, case.evidence.said
    endless = ", most of them never end" if said.endless > 0.4 else ""
    why = f"{100 - e.parsed:.0f} % of the answers cannot be read{endless}"
    if find_step(case.plan, FORM) is None:
        plan = with_step(case.plan, FORM, f"the scorer reads {case.situation.task.answer}")
        yield case.move("format.ask", "Ask and answer exactly in the benchmark's form.", why, plan=plan)
    if e.parsed > 97:
        return
    now = solution_limit(case.plan, case.sources)
    room = max(40, int(0.6 * now))
    if room < now and (find_step(case.plan, "cap_length") is None or said.endless > 0.3):
        asked = case.situation.longest_question
        plan = with_step(case.plan, "cap_length", why, question=asked, solution=room)
        said_so = f"Only solutions up to {room} characters, so that replies end."
        yield case.move("format.shorter", said_so, why, plan=plan, strength=said.endless)
    if find_step(case.plan, "answer_only") is None:
        plan = with_step(case.plan, "answer_only", why)
        yield case.move("format.answer_only", "Answers alone: nothing before the form can go wrong.", why, plan=plan)


def style_moves(case: Case) -> Iterator[Move]:
    """Solutions in a rendering the base can write: bare equations, or the sources' own words."""
    equations = mean([s.equations for s in case.sources])
    rewritten, stepless = find_step(case.plan, "rewrite_equations"), case.evidence.said.stepless
    wrong = f"{100 * case.room:.0f} % are wrong"
    if rewritten is None and equations > 0.4:
        why = f"{wrong}, and solutions are prose around equations"
        spacing = "compact" if case.situation.card.tiny else "spaced"
        plan = with_step(case.plan, "rewrite_equations", why, spacing=spacing)
        if any(s.profile.spoken_equations > 0.05 for s in case.sources):
            plan = with_step(plan, "signs_for_words", "some solutions write their arithmetic in words")
        yield case.move("style.equations", "Solutions as bare equations, one a line.", why, plan=plan)
    if rewritten is not None:
        why = f"{wrong} in bare equations"
        plan = without_steps(case.plan, "rewrite_equations")
        said = "Solutions in the sources' own words."
        yield case.move("style.own_words", said, why, plan=plan, strength=stepless)
        spacing = "compact" if rewritten.options.get("spacing") != "compact" else "spaced"
        plan = with_step(case.plan, "rewrite_equations", why, spacing=spacing)
        yield case.move("style.spacing", f"Equations in {spacing} writing.", why, plan=plan)
    if find_step(case.plan, "answer_only") is not None:
        why = f"{wrong} without steps"
        plan = without_steps(case.plan, "answer_only")
        yield case.move("style.steps", "Solutions with their steps again.", why, plan=plan)


def length_moves(case: Case) -> Iterator[Move]:
    """Longer or shorter training."""
    e, k = case.evidence, case.parameter_map
    if e.training is None or e.training.stopped is not None:
        return
    now = e.training.steps
    why = (
        f"loss {e.training.last_loss:.3f}, changing by {100 * e.training.tail_slope:.0f} % over the last quarter, after "
        f"{e.epochs:.1f} epochs; {100 * case.room:.0f} % are wrong"
    )
    for wanted in (round(1.6 * now), round(0.5 * now)):
        then = fit_steps(case.situation, max(20, wanted), e.seconds_per_step)
        if 0.9 * now < then < 1.15 * now:
            continue
        values = k.with_steps(case.training, then, e.rows)
        said = f"Train {k.steps_of(values, e.rows)} steps instead of {now}."
        kind = "underfit.longer" if then > now else "overfit.fewer"
        yield case.move(kind, said, why, training=values, strength=abs(math.log2(then / now)))


RATES = (2.0, 0.5, 1.4, 0.7, 3.0, 0.3)
FULL_COST = 2.0  # a step of full training in steps of LoRA; with SmolLM2 on one core 2.3 (31.6 s, 14.0 s)


def rate_moves(case: Case) -> Iterator[Move]:
    """The learning rate up and down."""
    why, rate = "the rate was a guess", case.parameter_map.rate
    for factor in RATES:
        values = case.parameter_map.with_rate(case.training, factor)
        said = f"Learning rate {values[rate]} instead of {case.training.get(rate)}."
        kind = "rate.higher" if factor > 1 else "rate.lower"
        yield case.move(kind, said, why, training=values, strength=abs(math.log2(factor)))


def method_moves(case: Case) -> Iterator[Move]:
    """Full ↔ LoRA, full only where the model is small enough for it; another rank."""
    k = case.parameter_map
    values = k.other_method(case.training)
    full = values[k.method] == FULL
    if not full or case.situation.card.parameters <= 1_500_000_000:
        name = "Full training" if full else "LoRA"
        why = "the method was never compared"
        move = case.move(f"method.{values[k.method]}", f"{name} instead of the other.", why, training=values)
        yield replace(move, step_cost=FULL_COST if full and not case.situation.card.tiny else 1.0)
    if case.training.get(k.method) == LORA:
        rank = int(as_number(case.training.get(k.rank, k.first[LORA][k.rank])))
        bigger: Values = {**case.training, k.rank: min(256, 2 * rank)}
        why = "more of the model may learn more"
        yield case.move("method.rank", f"LoRA rank {bigger[k.rank]} instead of {rank}.", why, training=bigger)


# The rule for trainings that the live watch ended: what their evidence blames.

DIVERGING = ("nan", "diverged", "exploded")


def stopped_moves(case: Case) -> Iterator[Move]:
    """A training that was stopped: a lower rate where it diverged, a higher one where nothing moved, else fewer steps."""
    e = case.evidence
    stopped = e.training.stopped if e.training else None
    if stopped is None:
        return
    why = f"stopped at step {stopped.at} of {stopped.of}: {stopped.text}"
    if stopped.kind in DIVERGING:
        said, values = "A third of the learning rate, which diverged.", case.parameter_map.with_rate(case.training, 0.3)
    elif stopped.kind == "flat":
        values = case.parameter_map.with_rate(case.training, 5)
        said = "Five times the learning rate, which moved nothing."
    else:
        said = "As many steps as the time allows, decay included."
        values = case.parameter_map.with_steps(case.training, max(20, round(0.9 * stopped.step)), e.rows)
    yield case.move("rate.stopped", said, why, training=values)


NEAR, JOINED = 1.96, 4


def join_moves(case: Case) -> Iterator[Move]:
    """The data of one good experiment with the training of another: promoted ones, and losses within chance."""
    e, sign = case.evidence, 1 if case.situation.task.direction == "max" else -1
    rows = [row for row in case.situation.brief.journal if row.value is not None and is_good(row)]
    rows = sorted(rows, key=lambda row: -sign * (row.value or 0.0))[:JOINED]
    for data, training in itertools.permutations(rows, 2):
        above = sum(sign * ((row.value or 0.0) - e.value) for row in (data, training))
        plan, values = followable(data.hypothesis.data_plan), case.parameter_map.values_of(training.hypothesis)
        if "stage" not in values:
            said = f"The data of experiment {data.number} with the training of experiment {training.number}."
            why = "both were promoted, or lost no more than chance"
            yield case.move("join.both", said, why, plan=plan, training=values, strength=above / 10)


def is_good(row: JournalRow) -> bool:
    """Promoted, or with a loss smaller than its standard error."""
    if row.outcome == "promoted":
        return True
    if row.gain is None or row.gain_low is None or row.gain_high is None:
        return False
    return 0 >= row.gain > -(row.gain_high - row.gain_low) / (2 * NEAR)
