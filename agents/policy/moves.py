"""What could be changed next, and how strongly the evidence asks for it; one small coherent change a move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuneloop.agents.policy.compose import FORM
from tuneloop.agents.policy.evidence import Evidence, better
from tuneloop.agents.policy.knobs import FULL, LORA, Knobs, Values, number
from tuneloop.agents.policy.plan import Plan, find, sources_in, with_step
from tuneloop.agents.policy.situation import Situation, Source, mean
from tuneloop.agents.policy.training import allowed_steps


@dataclass(frozen=True)
class Move:
    """`weight`: 0 (nothing speaks for it) to about 1."""

    aspect: str
    weight: float
    statement: str
    reason: str
    disproof: str
    plan: Plan
    training: Values


@dataclass(frozen=True)
class Case:
    """Situation, evidence, the plan that led to it, and what can be turned."""

    situation: Situation
    evidence: Evidence
    knobs: Knobs

    @property
    def plan(self) -> Plan:
        """The data plan that was followed."""
        return self.evidence.hypothesis.data_plan

    @property
    def training(self) -> Values:
        """The training values that were used."""
        return dict(self.evidence.hypothesis.training_plan)

    @property
    def sources(self) -> list[Source]:
        """The sources that were read."""
        return sources_in(self.plan, self.situation)

    @property
    def room(self) -> float:
        """How far the score is from what is possible, 0 to 1."""
        value = self.evidence.value
        return (100 - value if self.situation.task.direction == "max" else value) / 100

    def at_rate(self, factor: float) -> Values:
        """The training values at another learning rate."""
        return self.knobs.with_rate(self.training, factor)

    def move(
        self,
        aspect: str,
        weight: float,
        statement: str,
        reason: str,
        plan: Plan | None = None,
        training: Values | None = None,
    ) -> Move:
        """A change of the data plan, the training values, or both."""
        disproof = f"validation stays at or below {self.evidence.value:.1f}"
        return Move(aspect, weight, statement, reason, disproof, plan or self.plan, training or self.training)


def as_equations(case: Case, why: str) -> Plan:
    """The plan with solutions as bare equations, words read as signs where solutions have them."""
    plan = case.plan
    if any(s.profile.spoken_equations > 0.05 for s in case.sources):
        plan = with_step(plan, "signs_for_words", "some solutions write their arithmetic in words")
    return with_step(plan, "rewrite_equations", why, spacing="as_is")


def residual(source: Source, case: Case) -> float:
    """Share of wrong labels a source still brings in under the plan, guessed."""
    plan, p = case.plan, source.profile
    if len(case.situation.sources) > 1 and source.contradicted > 0.1:
        return source.contradicted
    false = 0.0 if find(plan, "drop_false_equations") else p.false_equations * p.equations
    if p.key_agreement is not None:
        checked = find(plan, "drop_contradicted") or find(plan, "trust_key")
        return (0.01 if checked else 1 - p.key_agreement) + false
    agree = find(plan, "keep_agreed")
    if source.votes:
        return (0.03 if agree else source.noise) + false
    if p.unlikely is not None:
        return (0.02 if find(plan, "drop_unlikely_labels") else min(0.5, p.unlikely)) + false
    others = [s.noise for s in case.situation.sources if s.verifiable]
    return max(source.noise, 0.8 * mean(others)) + false


def noise_left(case: Case) -> float:
    """Mean of `residual`, by rows."""
    rows = sum(s.questions for s in case.sources)
    return sum(residual(s, case) * s.questions for s in case.sources) / rows if rows else 0.0


def format_moves(case: Case) -> Iterator[Move]:
    """The scorer finds no answer: ask and answer in its form, shorter, or longer trained."""
    e, said = case.evidence, case.evidence.said
    lost = (100 - e.parsed) / 100
    if lost < 0.03:
        return
    weight = min(1.0, 0.25 + 1.5 * lost)
    why = f"{100 * lost:.0f} % of the answers cannot be read" + (
        ", most of them never end" if said.endless > 0.4 else ""
    )
    if find(case.plan, FORM) is None:
        plan = with_step(case.plan, FORM, f"the scorer reads {case.situation.task.answer}")
        yield case.move("format", weight + 0.3, "Ask and answer exactly in the benchmark's form.", why, plan)
    has_equations = mean([s.equations for s in case.sources]) > 0.4
    if find(case.plan, "rewrite_equations") is None and has_equations:
        plan = as_equations(case, why)
        yield case.move(
            "format", weight + 0.1, "Shorter solutions, one equation a line, leave room for the answer.", why, plan
        )
    if said.endless > 0.3:
        room = max(40, int(0.6 * max((s.profile.solution_lengths.p95 for s in case.sources), default=400)))
        asked = 3 * case.situation.facts.prompt_lengths.max + 200
        plan = with_step(case.plan, "cap_length", why, question=asked, solution=room)
        yield case.move("format", weight, f"Only solutions up to {room} characters, so that replies end.", why, plan)
    steps = longer(case)
    if steps:
        yield case.move("format", 0.9 * weight, "Train longer until the form is learned.", why, training=steps)
    yield case.move("format", 0.6 * weight, "A higher learning rate fixes the form.", why, training=case.at_rate(2))
    if find(case.plan, "answer_only") is None:
        plan = with_step(case.plan, "answer_only", why)
        yield case.move("format", 0.3 * weight, "Answers alone: nothing before the form can go wrong.", why, plan)


def style_moves(case: Case) -> Iterator[Move]:
    """Solutions in a rendering the base can write: bare equations, or the sources' own words."""
    e, card = case.evidence, case.situation.card
    equations = mean([s.equations for s in case.sources])
    rewritten, bare = find(case.plan, "rewrite_equations"), find(case.plan, "answer_only")
    failing = 0.6 * case.room if e.parsed >= 80 else 0.3 * case.room
    if rewritten is None and equations > 0.4:
        weight = failing * (1.3 if card.tiny else 0.5)
        why = f"{100 * case.room:.0f} % are wrong, and solutions are prose around equations"
        plan = as_equations(case, why)
        yield case.move("style", weight, "Solutions as bare equations, one a line.", why, plan)
    if rewritten is not None:
        weight = failing * (0.9 if e.said.stepless > 0.5 or case.room > 0.85 else 0.25)
        spacing = "compact" if rewritten.options.get("spacing") != "compact" else "spaced"
        why = f"{100 * case.room:.0f} % are wrong in bare equations"
        plan = tuple(s for s in case.plan if s.do != "rewrite_equations")
        yield case.move("style", weight, "Solutions in the sources' own words.", why, plan)
        plan = with_step(case.plan, "rewrite_equations", why, spacing=spacing)
        yield case.move("style", 0.6 * weight, f"Equations in {spacing} writing.", why, plan)
    if bare is not None and case.room > 0.3:
        why = f"{100 * case.room:.0f} % are wrong without steps"
        plan = tuple(s for s in case.plan if s.do != "answer_only")
        yield case.move("style", 0.5 * case.room, "Solutions with their steps again.", why, plan)


def underfit_moves(case: Case) -> Iterator[Move]:
    """Loss still falling, or few passes over the data: train longer, else faster, else more of the model."""
    e = case.evidence
    if e.training is None or e.training.stopped is not None or case.room < 0.01:
        return
    falling = max(0.0, -e.training.tail_slope)
    slow = e.training.last_loss > 0.8 * e.training.first_loss
    few = 0.3 if e.epochs < 4 and e.training.last_loss > 0.02 else 0.05
    helped = longer_helped(case)
    weight = (few + min(0.5, 5 * falling) + 0.4 * slow + 0.5 * helped) * min(1.0, 0.3 + 1.5 * case.room)
    why = f"loss changes by {100 * e.training.tail_slope:.0f} % over the last quarter after {e.epochs:.1f} epochs"
    why += "; longer training of these data has helped before" if helped else ""
    steps = longer(case)
    if steps:
        now, then = e.training.steps, case.knobs.steps_of(steps, e.rows)
        yield case.move("underfit", weight, f"Train {then} steps instead of {now}.", why, training=steps)
    yield case.move("underfit", 0.7 * weight, "A higher learning rate.", why, training=case.at_rate(2))
    knobs = case.knobs
    if case.training.get(knobs.method) == LORA:
        rank = int(number(case.training.get(knobs.rank, knobs.first[LORA][knobs.rank])))
        bigger: Values = {**case.training, knobs.rank: min(256, 2 * rank)}
        said = f"LoRA rank {bigger[knobs.rank]} instead of {rank}."
        yield case.move("underfit", 0.5 * weight, said, why, training=bigger)


def longer(case: Case) -> Values | None:
    """The training values with 1.6 times the steps, or what time allows; None where that is hardly more."""
    e = case.evidence
    now = e.training.steps if e.training else case.knobs.steps_of(case.training, e.rows)
    then = allowed_steps(case.situation, round(1.6 * now), e.seconds_per_step)
    return case.knobs.with_steps(case.training, then, e.rows) if then >= 1.15 * now else None


def longer_helped(case: Case) -> bool:
    """Whether a shorter training on the same data scored worse: then memorising is not what hurts."""
    e, direction = case.evidence, case.situation.task.direction
    return any(
        row.value is not None
        and row.training is not None
        and e.training is not None
        and row.hypothesis.data_plan == case.plan
        and row.training.steps < 0.9 * e.training.steps
        and better(e.value, row.value, direction)
        for row in case.situation.brief.journal
    )


def overfit_moves(case: Case) -> Iterator[Move]:
    """Loss near nothing and the score poor: fewer passes, or LoRA, or a lower rate."""
    e = case.evidence
    if e.training is None or longer_helped(case):
        return
    learned = e.training.last_loss < 0.12 * e.training.first_loss or e.training.last_loss < 0.03
    much = min(1.0, max(0.0, e.epochs - 3) / 8)
    weight = case.room * (min(1.0, 3 * e.rise) + (0.4 + 0.9 * much) * learned * (e.epochs > 3))
    if weight <= 0.02:
        return
    why = f"loss {e.training.last_loss:.3f} after {e.epochs:.1f} epochs, yet {100 * case.room:.0f} % are wrong"
    fewer = case.knobs.with_steps(case.training, max(20, round(0.5 * e.training.steps)), e.rows)
    yield case.move("overfit", weight, f"Half the steps ({case.knobs.steps_of(fewer, e.rows)}).", why, training=fewer)
    if case.training.get(case.knobs.method) == FULL:
        values = case.knobs.other_method(case.training)
        yield case.move("overfit", 0.8 * weight, "LoRA holds less by heart than full training.", why, training=values)
    yield case.move("overfit", 0.6 * weight, "Half the learning rate.", why, training=case.at_rate(0.5))


def rate_moves(case: Case) -> Iterator[Move]:
    """The learning rate up and down, ever finer; always something untried."""
    weight, why = 0.16 * min(1.0, 0.4 + case.room), "nothing else is blamed more; the rate was a guess"
    for factor, less in (
        (2.0, 1.0),
        (0.5, 0.9),
        (1.4, 0.6),
        (0.7, 0.55),
        (3.0, 0.4),
        (0.3, 0.35),
        (1.2, 0.2),
        (0.85, 0.18),
    ):
        values = case.at_rate(factor)
        rate = case.knobs.rate
        said = f"Learning rate {values[rate]} instead of {case.training.get(rate)}."
        yield case.move("rate", weight * less, said, why, training=values)


def method_moves(case: Case) -> Iterator[Move]:
    """Full ↔ LoRA; full only where the model is small enough for it."""
    values = case.knobs.other_method(case.training)
    method = values[case.knobs.method]
    if method == FULL and case.situation.card.parameters > 1_500_000_000:
        return
    why = "the data are as clean as they get; the method was never compared"
    name = "Full training" if method == FULL else "LoRA"
    yield case.move("method", 0.15 * min(1.0, 0.4 + case.room), f"{name} instead of the other.", why, training=values)
