"""The researcher of the offline policy: a first plan from the profile, then the change that the evidence asks for most."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tuneloop.agents.policy.config_coder import change_rate
from tuneloop.agents.policy.data_engineer import SOFTEN
from tuneloop.agents.policy.data_moves import coverage_moves, filter_moves, source_moves
from tuneloop.agents.policy.data_plan import (
    Plan,
    choose_sources,
    clean_rows,
    find_step,
    first_plan,
    followable,
    plan_fingerprint,
    with_sources,
    with_step,
    without_steps,
)
from tuneloop.agents.policy.evidence import Evidence, call_or_none, parent_of, read_evidence
from tuneloop.agents.policy.move_table import MoveTable, RankedMove, load_table, rank_moves
from tuneloop.agents.policy.moves import (
    RATES,
    Case,
    Move,
    format_moves,
    join_moves,
    length_moves,
    method_moves,
    rate_moves,
    stopped_moves,
    style_moves,
)
from tuneloop.agents.policy.parameter_map import ParameterMap, Values, first_training, read_parameter_map
from tuneloop.agents.policy.planner_constraints import directive_moves, limit_move, note_unfollowable, obey_directives
from tuneloop.agents.policy.situation import Situation, read_situation
from tuneloop.agents.policy.training_moves import (
    by_grpo,
    grpo_moves,
    last_sft,
    masking_moves,
    read_grpo_values,
    template_moves,
)
from tuneloop.agents.policy.validator import FAILURES, NO_ROWS
from tuneloop.core.brief import Brief, ExpectedMove, JournalRow
from tuneloop.core.errors import RecipeError, ToolError
from tuneloop.core.experiment import Hypothesis, Value
from tuneloop.core.protocols import Toolbox
from tuneloop.core.text import equations

RULES = (
    stopped_moves, format_moves, source_moves, filter_moves, coverage_moves, style_moves, length_moves, rate_moves,
    method_moves, masking_moves, template_moves,
)  # fmt: skip
FIRST, LAST = ("asked.values", "rate.stopped", "format.evaluated"), ("asked.limits",)
SHOWN = 8  # moves that others are told of
SPARED = 0.1  # of the labels
AT_LEAST, IN_VAIN, LITTLE = 6, 8, 0.5  # measured, not promoted in a row, points: little more is to be expected


async def propose_hypothesis(brief: Brief, tools: Toolbox, table: MoveTable | None = None) -> Hypothesis:
    """One falsifiable idea. Raises RecipeError when no source can be read as questions and answers."""
    incumbent = parent_of(brief.journal, brief.task.direction)
    if incumbent is None:
        situation, parameter_map, spacing = await asyncio.gather(
            read_situation(brief, tools), read_parameter_map(tools), base_model_spacing(tools)
        )
        idea = retry_hypothesis(situation, parameter_map, first_hypothesis(situation, parameter_map, spacing))
        ideas = [idea, *other_rates(idea, parameter_map)] if brief.under_way else [idea]
        possible = [obey_directives(one, situation) for one in ideas]
        tried = set(map(idea_fingerprint, earlier_ideas(brief)))
        new = next((one for one in possible if idea_fingerprint(one) not in tried), possible[0])
        return note_unfollowable(new, brief)
    case, untried = await find_moves(brief, tools, incumbent)
    ranked = in_order(case, untried, table or load_table())
    if not ranked:
        return stop_proposal(brief, case, "Every change that the evidence allows was tried.")
    if little_left(brief, ranked):
        text = f"{IN_VAIN} experiments in a row gained nothing, and no move that is left is expected to bring {LITTLE} points."
        return stop_proposal(brief, case, text)
    return note_unfollowable(hypothesis_of(ranked[0], case.evidence, incumbent.value or 0.0), brief)


def little_left(brief: Brief, ranked: Sequence[RankedMove]) -> bool:
    """Whether a run without an end of its own should be asked to end."""
    journal, budget = brief.journal, brief.budget
    measured = [row for row in journal if row.value is not None]
    endless = budget.experiments_left is None and budget.training_left is None
    in_vain = all(row.outcome != "promoted" for row in journal[-IN_VAIN:])
    enough = len(measured) >= AT_LEAST and len(journal) >= IN_VAIN
    return endless and enough and in_vain and all(one.improvement < LITTLE for one in ranked) and not goes_on(brief)


def goes_on(brief: Brief) -> bool:
    """Whether the user wants no end proposed."""
    return bool(brief.stop_refused) or brief.task.on_stop == "continue"


def stop_proposal(brief: Brief, case: Case, reason: str) -> Hypothesis:
    """That the run ends. Raises RecipeError where the user wants it to go on."""
    if goes_on(brief):
        raise RecipeError("every change that the evidence allows was tried")
    return Hypothesis(
        statement="Little more is to be expected.",
        reason=reason,
        disproof="a change that is not among those of the offline policy improves the score",
        aspect="stop",
        parent=case.evidence.number,
        stop=True,
    )


def first_hypothesis(situation: Situation, parameter_map: ParameterMap, spacing: str) -> Hypothesis:
    """The sensible first recipe. Raises RecipeError when no source can be read as questions and answers."""
    evaluated = situation.task.evaluated
    chosen = choose_sources(situation) if evaluated else [s for s in situation.sources if s.usable]
    if not chosen:
        names = ", ".join(s.id for s in situation.sources) or "none"
        held = "questions and answers of the benchmark's shape" if evaluated else "questions and replies"
        raise RecipeError(f"no source holds {held}; looked at: {names}", culprit="data")
    rows = min(situation.task.row_limit, sum(map(clean_rows, chosen)))
    training = first_training(situation, parameter_map, rows)
    named = ", ".join(s.id for s in chosen)
    if not evaluated:  # without the step that gives rows a benchmark's form they stay as the data have them
        return Hypothesis(
            statement=f"{named}, with questions and replies as they are, each question once.",
            reason="no benchmark asks for a form, and nothing is evaluated",
            disproof="nothing: no score is measured",
            aspect="first",
            data_plan=with_step(with_sources((), chosen), "dedupe", "a question twice is learned twice"),
            training_plan=training,
        )
    plan = first_plan(situation, spacing)
    cleaning = [step.do for step in plan if step.do.startswith(("drop", "keep", "require", "repair"))]
    return Hypothesis(
        statement=f"{named} in the benchmark's own form, cleaned by {', '.join(cleaning)}.",
        reason="; ".join(step.why for step in plan if step.why)[:600],
        disproof="validation is no better than the untouched model's",
        aspect="first",
        data_plan=plan,
        training_plan=training,
    )


async def base_model_spacing(tools: Toolbox) -> str:
    """How the untouched model itself spaces equations."""
    found = await call_or_none(tools, "evaluation_explain_failures", experiment=0, count=30) or {}
    return spacing_of(str(f.get("prediction") or "") for f in found.get("items", []))


def spacing_of(replies: Iterable[str]) -> str:
    """`spaced` where most of five equations or more are, else `compact`. Sources that each write as they do teach neither."""
    lefts = [left for reply in replies for left, _, _ in equations(reply)]
    return "spaced" if len(lefts) >= 5 and sum(" " in left for left in lefts) > len(lefts) / 2 else "compact"


def retry_hypothesis(situation: Situation, parameter_map: ParameterMap, idea: Hypothesis) -> Hypothesis:
    """The first idea, changed by what experiments without a score died of."""
    for row in situation.brief.journal:
        failed = row.hypothesis if followable(row.hypothesis.data_plan) else idea
        plan, training, why = apply_failure(row, parameter_map, failed)
        reason = f"experiment {row.number}: {row.failure or row.lesson or row.outcome}"[:600]
        changes = {"data_plan": plan, "training_plan": training, "statement": why, "reason": reason}
        idea = idea.model_copy(update=changes)
    tried = {idea_fingerprint(row.hypothesis) for row in situation.brief.journal if not is_innocent(row)}
    for _ in tried:  # a rate of 0 stays what it is
        if idea_fingerprint(idea) not in tried:
            break
        idea = idea.model_copy(update={"training_plan": parameter_map.with_rate(dict(idea.training_plan), 0.5)})
    return idea


def other_rates(idea: Hypothesis, parameter_map: ParameterMap) -> Iterator[Hypothesis]:
    """The same at other learning rates: what a batch that begins at once can tell apart without any result."""
    for factor in RATES:
        values = parameter_map.with_rate(dict(idea.training_plan), factor)
        statement = f"The same data at {factor:g} times the learning rate of the first plan."
        yield idea.model_copy(update={"training_plan": values, "statement": statement})


def earlier_ideas(brief: Brief) -> list[Hypothesis]:
    """Those of all experiments that are over or under way, but for what the machine ended."""
    over = [row.hypothesis for row in brief.journal if not is_innocent(row)]
    return [*over, *(one.hypothesis for one in brief.under_way)]


def idea_fingerprint(idea: Hypothesis) -> str:
    """Equal for ideas that would do the same."""
    return plan_fingerprint(idea.data_plan, dict(idea.training_plan))


def apply_failure(row: JournalRow, parameter_map: ParameterMap, failed: Hypothesis) -> tuple[Plan, Values, str]:
    """Plan and values after one failed experiment, and what was changed."""
    plan, training, said = followable(failed.data_plan), parameter_map.values_of(failed), row.failure or ""
    if is_innocent(row):
        return plan, training, "The same once more: what ended it was not the recipe."
    for rule in (rule for rule in FAILURES if rule.found(said)):
        cured = change_rate(training, rule.repair, parameter_map)
        if cured != training:
            return plan, cured, f"The same data: {rule.repair}."
    gone = next((do for do in SOFTEN if find_step(plan, do)), None)
    if gone is not None and re.search(rf"{NO_ROWS}|script|data(?!/)", said, re.I):
        why = f"The same without {gone}, which may have failed or left too few rows."
        return without_steps(plan, gone), training, why
    return plan, parameter_map.with_rate(training, 0.5), "The same data at half the learning rate."


def is_innocent(row: JournalRow) -> bool:
    """Whether the machine or its user ended the experiment, and the recipe may be right."""
    return any(rule.found(row.failure or "") for rule in FAILURES if rule.culprit == "environment")


async def expected_moves(brief: Brief, tools: Toolbox) -> tuple[ExpectedMove, ...]:
    """The first moves of the ranking, for whoever else plans; none before something was measured, or where tools refuse."""
    incumbent, table = parent_of(brief.journal, brief.task.direction), load_table()
    if incumbent is None:
        return ()
    try:
        ranked = in_order(*await find_moves(brief, tools, incumbent), table)
    except (ToolError, RecipeError):
        return ()
    except (LookupError, TypeError, ValueError) as e:  # a plan as a chat model may write it; advice ends no run
        logging.getLogger(__name__).warning("no moves are ranked after experiment %d: %r", incumbent.number, e)
        return ()
    return tuple(
        ExpectedMove(
            kind=one.move.kind,
            statement=one.move.statement,
            gain=round(one.gain, 1),
            low=round(one.interval[0], 1),
            high=round(one.interval[1], 1),
            count=one.kind.count,
        )
        for one in ranked[:SHOWN]
    )


async def find_moves(brief: Brief, tools: Toolbox, incumbent: JournalRow) -> tuple[Case, list[Move]]:
    """The case of the experiment to build on, and its untried moves; what the user asks for comes first."""
    parent = last_sft(brief.journal, incumbent)
    situation, parameter_map, evidence, grpo = await asyncio.gather(
        read_situation(brief, tools),
        read_parameter_map(tools),
        read_evidence(brief.task, parent, tools),
        read_grpo_values(incumbent, tools),
    )
    allowed = replace(evidence, hypothesis=obey_directives(evidence.hypothesis, situation))
    case = Case(situation, allowed, parameter_map)
    ideas = earlier_ideas(brief)
    known = [(plan_fingerprint(followable(idea.data_plan), {}), parameter_map.values_of(idea)) for idea in ideas]
    asked = directive_moves(case, followable(parent.hypothesis.data_plan), parameter_map.values_of(parent.hypothesis))
    tried = set(map(idea_fingerprint, ideas))
    untried = [move for move in asked if plan_fingerprint(move.plan, move.training) not in tried]
    known += [(plan_fingerprint(case.plan, {}), case.training)]
    known += [(plan_fingerprint(move.plan, {}), move.training) for move in untried]
    for move in (limit_move(m, case) for m in (*rule_moves(case), *join_moves(case), *grpo_moves(case, grpo))):
        recipe = (plan_fingerprint(move.plan, {}), move.training)
        if not any(alike(recipe, other) for other in known):
            known.append(recipe)
            untried.append(move)
    return case, untried


def alike(one: tuple[str, Values], other: tuple[str, Values]) -> bool:
    """Whether two recipes, a data plan's fingerprint and training values, are the same for what an experiment can tell.

    Numbers of the training may differ by 15 %.
    """
    (plan, values), (plan_, values_) = one, other
    same = plan == plan_ and values.keys() == values_.keys()
    return same and all(close(values[key], values_[key]) for key in values)


def close(one: Value, other: Value) -> bool:
    """Equal, or numbers of which the larger is at most 15 % more."""
    numbers = isinstance(one, float | int) and isinstance(other, float | int)
    return math.isclose(one, other, rel_tol=0.13) if numbers else one == other  # type: ignore[arg-type]


def in_order(case: Case, untried: Sequence[Move], table: MoveTable) -> list[RankedMove]:
    """What the user asks for, the cure of a training that was stopped, data with far fewer labels in doubt, then by worth."""
    brief = case.situation.brief
    ranked = rank_moves(case, untried, table, f"{brief.task.seed} {brief.experiment}")
    return sorted(ranked, key=place_of)


def place_of(one: RankedMove) -> tuple[bool, bool, bool]:
    """Before what the table says of others; a move that it expects nothing of spares no doubt."""
    spares = one.move.aspect == "noise" and one.move.strength >= SPARED and one.improvement >= LITTLE
    return one.move.kind not in FIRST, one.move.kind in LAST, not spares


def rule_moves(case: Case) -> list[Move]:
    """All moves of all rules, in the rules' order; none of a GRPO, whose loss and length say other things."""
    if by_grpo(case.training):
        return []
    return [move for rule in RULES for move in rule(case) if find_step(move.plan, "use_source")]


def hypothesis_of(best: RankedMove, parent: Evidence, best_so_far: float) -> Hypothesis:
    """The answer."""
    move, (low, high) = best.move, best.interval
    return Hypothesis(
        statement=move.statement,
        reason=f"{move.reason}; expected are {best.gain:+.1f} points ({low:+.1f} to {high:+.1f})",
        disproof=f"validation is no better than {best_so_far:.1f}",
        aspect=move.aspect,
        parent=parent.number,
        data_plan=move.plan,
        training_plan=move.training,
        move=move.kind,
        expected_gain=round(best.gain, 2),
    )
