"""What could be changed next, and how strongly the evidence asks for it; one small coherent change a move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuneloop.agents.policy.data_plan import Plan, find_step, sources_in, with_step
from tuneloop.agents.policy.evidence import Evidence, is_better
from tuneloop.agents.policy.parameter_map import FULL, LORA, ParameterMap, Values, as_number, fit_steps
from tuneloop.agents.policy.script_composer import FORM
from tuneloop.agents.policy.situation import DataSource, Situation, mean


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
    parameter_map: ParameterMap

    @property
    def plan(self) -> Plan:
        """The data plan that was followed."""
        return self.evidence.hypothesis.data_plan

    @property
    def training(self) -> Values:
        """The training values that were used."""
        return dict(self.evidence.hypothesis.training_plan)

    @property
    def sources(self) -> list[DataSource]:
        """The sources that were read."""
        return sources_in(self.plan, self.situation)

    @property
    def room(self) -> float:
        """How far the score is from what is possible, 0 to 1."""
        value = self.evidence.value
        return (100 - value if self.situation.task.direction == "max" else value) / 100

    def at_rate(self, factor: float) -> Values:
        """The training values at another learning rate."""
        return self.parameter_map.with_rate(self.training, factor)

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


def residual_noise(source: DataSource, case: Case) -> float:
    """Share of wrong labels a source still brings in under the plan, guessed."""
    plan, p = case.plan, source.profile
    if len(case.situation.sources) > 1 and source.contradicted > 0.1:
        return source.contradicted
    false = 0.0 if find_step(plan, "drop_false_equations") else p.false_equations * p.equations
    if p.key_agreement is not None:
        checked = find_step(plan, "drop_contradicted") or find_step(plan, "trust_key")
        return (0.01 if checked else 1 - p.key_agreement) + false
    agree = find_step(plan, "keep_agreed")
    if source.votes:
        return (0.03 if agree else source.noise) + false
    if p.unlikely is not None:
        return (0.02 if find_step(plan, "drop_unlikely_labels") else min(0.5, p.unlikely)) + false
    others = [s.noise for s in case.situation.sources if s.verifiable]
    return max(source.noise, 0.8 * mean(others)) + false


def mean_noise(case: Case) -> float:
    """Mean of `residual_noise`, by rows."""
    rows = sum(s.questions for s in case.sources)
    return sum(residual_noise(s, case) * s.questions for s in case.sources) / rows if rows else 0.0


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
    if find_step(case.plan, FORM) is None:
        plan = with_step(case.plan, FORM, f"the scorer reads {case.situation.task.answer}")
        yield case.move("format", weight + 0.3, "Ask and answer exactly in the benchmark's form.", why, plan)
    has_equations = mean([s.equations for s in case.sources]) > 0.4
    if find_step(case.plan, "rewrite_equations") is None and has_equations:
        plan = as_equations(case, why)
        yield case.move(
            "format", weight + 0.1, "Shorter solutions, one equation a line, leave room for the answer.", why, plan
        )
    if said.endless > 0.3:
        room = max(40, int(0.6 * max((s.profile.solution_lengths.p95 for s in case.sources), default=400)))
        asked = 3 * case.situation.facts.prompt_lengths.max + 200
        plan = with_step(case.plan, "cap_length", why, question=asked, solution=room)
        yield case.move("format", weight, f"Only solutions up to {room} characters, so that replies end.", why, plan)
    steps = train_longer(case)
    if steps:
        yield case.move("format", 0.9 * weight, "Train longer until the form is learned.", why, training=steps)
    yield case.move("format", 0.6 * weight, "A higher learning rate fixes the form.", why, training=case.at_rate(2))
    if find_step(case.plan, "answer_only") is None:
        plan = with_step(case.plan, "answer_only", why)
        yield case.move("format", 0.3 * weight, "Answers alone: nothing before the form can go wrong.", why, plan)


def style_moves(case: Case) -> Iterator[Move]:
    """Solutions in a rendering the base can write: bare equations, or the sources' own words."""
    e, card = case.evidence, case.situation.card
    equations = mean([s.equations for s in case.sources])
    rewritten, bare = find_step(case.plan, "rewrite_equations"), find_step(case.plan, "answer_only")
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
    helped = did_longer_help(case)
    weight = (few + min(0.5, 5 * falling) + 0.4 * slow + 0.5 * helped) * min(1.0, 0.3 + 1.5 * case.room)
    why = f"loss changes by {100 * e.training.tail_slope:.0f} % over the last quarter after {e.epochs:.1f} epochs"
    why += "; longer training of these data has helped before" if helped else ""
    steps = train_longer(case)
    if steps:
        now, then = e.training.steps, case.parameter_map.steps_of(steps, e.rows)
        yield case.move("underfit", weight, f"Train {then} steps instead of {now}.", why, training=steps)
    yield case.move("underfit", 0.7 * weight, "A higher learning rate.", why, training=case.at_rate(2))
    parameter_map = case.parameter_map
    if case.training.get(parameter_map.method) == LORA:
        rank = int(as_number(case.training.get(parameter_map.rank, parameter_map.first[LORA][parameter_map.rank])))
        bigger: Values = {**case.training, parameter_map.rank: min(256, 2 * rank)}
        said = f"LoRA rank {bigger[parameter_map.rank]} instead of {rank}."
        yield case.move("underfit", 0.5 * weight, said, why, training=bigger)


def train_longer(case: Case) -> Values | None:
    """The training values with 1.6 times the steps, or what time allows; None where that is hardly more."""
    e = case.evidence
    now = e.training.steps if e.training else case.parameter_map.steps_of(case.training, e.rows)
    then = fit_steps(case.situation, round(1.6 * now), e.seconds_per_step)
    return case.parameter_map.with_steps(case.training, then, e.rows) if then >= 1.15 * now else None


def did_longer_help(case: Case) -> bool:
    """Whether a shorter training on the same data scored worse: then memorising is not what hurts."""
    e, direction = case.evidence, case.situation.task.direction
    return any(
        row.value is not None
        and row.training is not None
        and e.training is not None
        and row.hypothesis.data_plan == case.plan
        and row.training.steps < 0.9 * e.training.steps
        and is_better(e.value, row.value, direction)
        for row in case.situation.brief.journal
    )


def overfit_moves(case: Case) -> Iterator[Move]:
    """Loss near nothing and the score poor: fewer passes, or LoRA, or a lower rate."""
    e = case.evidence
    if e.training is None or did_longer_help(case):
        return
    learned = e.training.last_loss < 0.12 * e.training.first_loss or e.training.last_loss < 0.03
    much = min(1.0, max(0.0, e.epochs - 3) / 8)
    weight = case.room * (min(1.0, 3 * e.rise) + (0.4 + 0.9 * much) * learned * (e.epochs > 3))
    if weight <= 0.02:
        return
    why = f"loss {e.training.last_loss:.3f} after {e.epochs:.1f} epochs, yet {100 * case.room:.0f} % are wrong"
    fewer = case.parameter_map.with_steps(case.training, max(20, round(0.5 * e.training.steps)), e.rows)
    yield case.move(
        "overfit", weight, f"Half the steps ({case.parameter_map.steps_of(fewer, e.rows)}).", why, training=fewer
    )
    if case.training.get(case.parameter_map.method) == FULL:
        values = case.parameter_map.other_method(case.training)
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
        rate = case.parameter_map.rate
        said = f"Learning rate {values[rate]} instead of {case.training.get(rate)}."
        yield case.move("rate", weight * less, said, why, training=values)


def method_moves(case: Case) -> Iterator[Move]:
    """Full ↔ LoRA; full only where the model is small enough for it."""
    values = case.parameter_map.other_method(case.training)
    method = values[case.parameter_map.method]
    if method == FULL and case.situation.card.parameters > 1_500_000_000:
        return
    why = "the data are as clean as they get; the method was never compared"
    name = "Full training" if method == FULL else "LoRA"
    yield case.move("method", 0.15 * min(1.0, 0.4 + case.room), f"{name} instead of the other.", why, training=values)


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
        lower = case.at_rate(0.3)
        yield case.move("rate", 0.9, "A third of the learning rate, which diverged.", why, training=lower)
    elif stopped.kind == "flat":
        higher = case.at_rate(5)
        yield case.move("rate", 0.9, "Five times the learning rate, which moved nothing.", why, training=higher)
    else:
        steps = case.parameter_map.with_steps(case.training, max(20, round(0.9 * stopped.step)), e.rows)
        yield case.move("rate", 0.5, "As many steps as the time allows, decay included.", why, training=steps)
