"""What the user wants of the next plan: values that are asked for, sources that are left, limits for every move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuneloop.agents.policy.data_plan import Plan, choose_sources, find_step, reads_source, with_sources
from tuneloop.agents.policy.moves import Case, Move
from tuneloop.agents.policy.parameter_map import Values
from tuneloop.agents.policy.script_composer import READ
from tuneloop.agents.policy.situation import Situation
from tuneloop.core.brief import Brief
from tuneloop.core.constraints import constrained, same
from tuneloop.core.directive import Focus, Use
from tuneloop.core.experiment import Hypothesis


def without_excluded_sources(plan: Plan, situation: Situation) -> Plan:
    """The plan without sources that were ruled out; with the best of the others where none is left."""
    left = tuple(step for step in plan if step.do != READ or any(reads_source(step, s) for s in situation.sources))
    return left if find_step(left, READ) else with_sources(left, choose_sources(situation))


def obey_directives(idea: Hypothesis, situation: Situation) -> Hypothesis:
    """The idea as the user's directives allow it."""
    brief, plan = situation.brief, without_excluded_sources(idea.data_plan, situation)
    values = constrained(brief.directives, dict(idea.training_plan), brief.kept)
    return idea.model_copy(update={"data_plan": plan, "training_plan": values})


def directive_moves(case: Case, plan: Plan, before: Values) -> Iterator[Move]:
    """The plan so far with what was asked for, alone: so its effect is seen. `plan`, `before`: what was used."""
    brief = case.situation.brief
    asked = [w for w in brief.directives if isinstance(w, Use)]
    if wanted := [w for w in asked if w.parameter not in before or not same(before[w.parameter], w.value)]:
        said = ", ".join(f"{w.parameter} = {w.value}" for w in wanted)
        yield case.move("asked.values", f"{said}, as the user asks.", "the user wants it tried")
    elif not same_values(case.training, before) or case.plan != plan:
        yield case.move("asked.limits", "The best recipe within the user's limits.", "limits came after it")


def same_values(values: Values, before: Values) -> bool:
    """Whether the values do the same."""
    return values.keys() == before.keys() and all(same(values[key], before[key]) for key in values)


def limit_move(move: Move, case: Case) -> Move:
    """The move within the user's limits; what they change of it is said."""
    brief = case.situation.brief
    training = constrained(brief.directives, move.training, brief.kept)
    bent = ", ".join(f"{name} = {value}" for name, value in training.items() if move.training.get(name, value) != value)
    statement = f"{move.statement} Within the user's limits: {bent}." if bent else move.statement
    plan = without_excluded_sources(move.plan, case.situation)
    return replace(move, statement=statement, plan=plan, training=training)


def note_unfollowable(idea: Hypothesis, brief: Brief) -> Hypothesis:
    """With a word on ideas that only a chat model could follow."""
    if not any(isinstance(w, Focus) for w in brief.directives):
        return idea
    return idea.model_copy(update={"reason": f"{idea.reason}; ideas in words wait for a chat model, none is set up"})
