"""The researcher of the offline policy: a first plan from the profile, then the change that the evidence asks for most."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tuneloop.agents.policy.data_engineer import FEWER, SOFTEN
from tuneloop.agents.policy.data_moves import coverage_moves, noise_moves
from tuneloop.agents.policy.data_plan import (
    Plan,
    choose_sources,
    clean_rows,
    find_step,
    first_plan,
    plan_fingerprint,
    without_steps,
)
from tuneloop.agents.policy.evidence import call_or_none, parent_of, read_evidence
from tuneloop.agents.policy.moves import (
    Case,
    Move,
    format_moves,
    method_moves,
    overfit_moves,
    rate_moves,
    stopped_moves,
    style_moves,
    underfit_moves,
)
from tuneloop.agents.policy.parameter_map import ParameterMap, Values, first_training, read_parameter_map
from tuneloop.agents.policy.planner_constraints import (
    apply_directives,
    directive_moves,
    limit_move,
    note_unfollowable,
    permitted_evidence,
    without_excluded_sources,
)
from tuneloop.agents.policy.situation import Situation, read_situation
from tuneloop.agents.policy.training_moves import (
    by_grpo,
    grpo_moves,
    grpo_weight,
    last_sft,
    masking_moves,
    read_grpo_values,
    template_moves,
)
from tuneloop.agents.policy.unevaluated import plain_hypothesis
from tuneloop.core.brief import Brief, IdeaUnderWay, JournalRow
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Hypothesis
from tuneloop.core.protocols import Toolbox
from tuneloop.core.text import equations

RULES = (
    stopped_moves, format_moves, noise_moves, coverage_moves, style_moves, underfit_moves, overfit_moves, rate_moves,
    method_moves, masking_moves, template_moves,
)  # fmt: skip
DIVERGED = re.compile(r"\bnan\b|diverg|infinite|loss rises|exactly 0|learning.rate.*(?:high|lower)", re.I)
FLAT = re.compile(r"loss does not move|learning.rate is too small", re.I)
SLOW = re.compile(r"time limit|timed? ?out|deadline|too long to train|seconds are left", re.I)
AGAIN, BLAMED = 0.35, 0.15
RATES = (2.0, 0.5, 1.4, 0.7, 3.0, 0.3)


async def propose_hypothesis(brief: Brief, tools: Toolbox) -> Hypothesis:
    """One falsifiable idea. Raises RecipeError when no source can be read as questions and answers."""
    incumbent = parent_of(brief.journal, brief.task.direction)
    if incumbent is None:
        situation, parameter_map, spacing = await asyncio.gather(
            read_situation(brief, tools), read_parameter_map(tools), base_model_spacing(tools)
        )
        idea = retry_hypothesis(situation, parameter_map, first_hypothesis(situation, parameter_map, spacing))
        possible = [obey_directives(idea, situation)]
        if brief.under_way:
            possible += [obey_directives(one, situation) for one in other_rates(idea, parameter_map)]
        tried = tried_plans(brief)
        new = next((one for one in possible if idea_fingerprint(one) not in tried), possible[0])
        return note_unfollowable(new, brief)
    parent = last_sft(brief.journal, incumbent)
    situation, parameter_map, evidence = await asyncio.gather(
        read_situation(brief, tools), read_parameter_map(tools), read_evidence(brief.task, parent, tools)
    )
    case = Case(situation, permitted_evidence(evidence, situation), parameter_map)
    move = choose_move(case, parent)
    if move is None or grpo_outweighs(case, move, parent):
        move = choose_move(case, parent, await read_grpo_values(incumbent, tools))
    if move is None:
        return stop_proposal(brief, parent.number)
    return note_unfollowable(hypothesis_of(move, parent.number), brief)


def stop_proposal(brief: Brief, parent: int) -> Hypothesis:
    """That the run ends. Raises RecipeError where the user wants it to go on."""
    if brief.stop_refused or brief.task.on_stop == "continue":
        raise RecipeError("every change that the evidence allows was tried")
    return Hypothesis(
        statement="No change is left that the evidence allows.",
        reason=f"Every change of experiment {parent} that the evidence allows was tried.",
        disproof="a change that is not among those of the offline policy improves the score",
        aspect="stop",
        parent=parent,
        stop=True,
    )


def first_hypothesis(situation: Situation, parameter_map: ParameterMap, spacing: str) -> Hypothesis:
    """The sensible first recipe. Raises RecipeError when no source can be read as questions and answers."""
    if not situation.task.evaluated:
        return plain_hypothesis(situation, parameter_map)
    chosen = choose_sources(situation)
    if not chosen:
        names = ", ".join(s.id for s in situation.sources) or "none"
        raise RecipeError(
            f"no source holds questions and answers of the benchmark's shape; looked at: {names}", culprit="data"
        )
    plan = first_plan(situation, spacing)
    rows = min(situation.task.row_limit, sum(map(clean_rows, chosen)))
    training = first_training(situation, parameter_map, rows)
    named = ", ".join(s.id for s in chosen)
    cleaning = [step.do for step in plan if step.do.startswith(("drop", "keep", "require", "repair"))]
    return Hypothesis(
        statement=f"Clean rows of {named} in the benchmark's own form teach the task.",
        reason="; ".join(step.why for step in plan if step.why)[:600],
        disproof="validation does not rise above the untouched model",
        aspect="first",
        data_plan=plan,
        training_plan=training,
    ).model_copy(update={"statement": f"{named} in the benchmark's own form, cleaned by {', '.join(cleaning)}."})


async def base_model_spacing(tools: Toolbox) -> str:
    """How the untouched model itself spaces equations: spaced, compact, or as_is when it shows none."""
    found = await call_or_none(tools, "evaluation_explain_failures", experiment=0, count=30) or {}
    shown = found.get("items", [])
    lefts = [left for f in shown for left, _, _ in equations(str(f.get("prediction") or ""))]
    if len(lefts) < 5:
        return "as_is"
    spaced = sum(" " in left for left in lefts) / len(lefts)
    return "spaced" if spaced > 0.8 else "compact" if spaced < 0.2 else "as_is"


def retry_hypothesis(situation: Situation, parameter_map: ParameterMap, idea: Hypothesis) -> Hypothesis:
    """The first idea, changed by what experiments without a score died of."""
    for row in situation.brief.journal:
        if row.hypothesis.data_plan:
            idea = idea.model_copy(
                update={"data_plan": row.hypothesis.data_plan, "training_plan": row.hypothesis.training_plan}
            )
        plan, training, why = apply_failure(row, parameter_map, idea.data_plan, dict(idea.training_plan))
        idea = idea.model_copy(
            update={
                "data_plan": plan,
                "training_plan": training,
                "statement": why,
                "reason": f"experiment {row.number}: {row.failure}"[:600],
            }
        )
    tried = {idea_fingerprint(row.hypothesis) for row in situation.brief.journal}
    while idea_fingerprint(idea) in tried:
        idea = idea.model_copy(update={"training_plan": parameter_map.with_rate(dict(idea.training_plan), 0.5)})
    return idea


def obey_directives(idea: Hypothesis, situation: Situation) -> Hypothesis:
    """The idea as the user's directives allow it."""
    plan = without_excluded_sources(idea.data_plan, situation)
    values = apply_directives(situation.brief, dict(idea.training_plan))
    return idea.model_copy(update={"data_plan": plan, "training_plan": values})


def other_rates(idea: Hypothesis, parameter_map: ParameterMap) -> Iterator[Hypothesis]:
    """The same at other learning rates: what a batch that begins at once can tell apart without any result."""
    for factor in RATES:
        values = parameter_map.with_rate(dict(idea.training_plan), factor)
        statement = f"The same data at {factor:g} times the learning rate of the first plan."
        yield idea.model_copy(update={"training_plan": values, "statement": statement})


def tried_plans(brief: Brief) -> set[str]:
    """Fingerprints of all plans of experiments that are over or under way."""
    ideas = (*(row.hypothesis for row in brief.journal), *(one.hypothesis for one in brief.under_way))
    return set(map(idea_fingerprint, ideas))


def idea_fingerprint(idea: Hypothesis) -> str:
    """Equal for ideas that would do the same."""
    return plan_fingerprint(idea.data_plan, dict(idea.training_plan))


def apply_failure(
    row: JournalRow, parameter_map: ParameterMap, plan: Plan, training: Values
) -> tuple[Plan, Values, str]:
    """Plan and values after one failed experiment, and what was changed."""
    said = row.failure or ""
    if FLAT.search(said):
        return (
            plan,
            parameter_map.with_rate(training, 5),
            "The same data at five times the learning rate, which moved nothing.",
        )
    if DIVERGED.search(said):
        return (
            plan,
            parameter_map.with_rate(training, 0.3),
            "The same data at a third of the learning rate, which diverged.",
        )
    if SLOW.search(said):
        steps = max(20, parameter_map.steps_of(training, row.rows or 1000) // 2)
        shorter = parameter_map.with_steps(training, steps, row.rows or 1000)
        return plan, shorter, "The same data in half the steps, to fit the time."
    gone = next((do for do in SOFTEN if find_step(plan, do)), None)
    if gone is not None and (FEWER.search(said) or "script" in said or "data" in said):
        return (
            without_steps(plan, gone),
            training,
            f"The same without {gone}, which may have failed or left too few rows.",
        )
    return plan, parameter_map.with_rate(training, 0.5), "The same data at half the learning rate, after a failure."


def choose_move(case: Case, parent: JournalRow, grpo: Values | None = None) -> Move | None:
    """The untried move with the most weight; None: everything was tried. `grpo`: values of a GRPO that may follow."""
    journal = case.situation.brief.journal
    tried = tried_plans(case.situation.brief)
    possible = [*directive_moves(case, parent.hypothesis.data_plan, dict(parent.hypothesis.training_plan))]
    moves = [*(limit_move(m, case) for m in rule_moves(case)), *grpo_moves(case, grpo)]
    possible += [m for m in moves if (m.plan, m.training) != (case.plan, case.training)]
    untried = [m for m in possible if plan_fingerprint(m.plan, m.training) not in tried]
    losses = count_rejections([*journal, *case.situation.brief.under_way], parent)
    return max(untried, key=lambda m: weigh_move(m, losses, parent), default=None)


def grpo_outweighs(case: Case, move: Move, parent: JournalRow) -> bool:
    """Whether a GRPO, were there one to be had, would be chosen before the move."""
    losses, grpo = count_rejections(case.situation.brief.journal, parent), replace(move, aspect="method")
    return weigh_move(replace(grpo, weight=grpo_weight(case)), losses, parent) > weigh_move(move, losses, parent)


def rule_moves(case: Case) -> list[Move]:
    """All moves of all rules, in the rules' order; none of a GRPO, whose loss and length say other things."""
    if by_grpo(case.training):
        return []
    return [move for rule in RULES for move in rule(case) if find_step(move.plan, "use_source")]


def weigh_move(move: Move, losses: Counter[str], parent: JournalRow) -> float:
    """The move's weight, more when the critic blamed its aspect, less for each time the aspect failed here."""
    blamed = BLAMED if parent.blame == move.aspect else 0.0
    return round((move.weight + blamed) * AGAIN ** losses[move.aspect], 6)


def count_rejections(journal: Sequence[JournalRow | IdeaUnderWay], parent: JournalRow) -> Counter[str]:
    """How often each aspect was tried from this parent and did not help, or is being tried beside this experiment."""
    children: Iterable[JournalRow | IdeaUnderWay] = (row for row in journal if row.hypothesis.parent == parent.number)
    return Counter(row.hypothesis.aspect for row in children)


def hypothesis_of(move: Move, parent: int) -> Hypothesis:
    """The answer."""
    return Hypothesis(
        statement=move.statement,
        reason=move.reason,
        disproof=move.disproof,
        aspect=move.aspect,
        parent=parent,
        data_plan=move.plan,
        training_plan=move.training,
    )
