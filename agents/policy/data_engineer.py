"""The data engineer of the offline policy: turns the data plan into `process_data.py`, and softens it after a failure."""

from __future__ import annotations

import re
import textwrap

from tuneloop.agents.policy.data_plan import (
    Plan,
    find_step,
    first_plan,
    followable,
    solution_limit,
    with_step,
    with_steps,
    without_steps,
)
from tuneloop.agents.policy.evidence import call_or_none
from tuneloop.agents.policy.script_composer import READ, compose, printable_line
from tuneloop.agents.policy.situation import Situation, form_of, read_situation
from tuneloop.agents.policy.validator import NO_ROWS
from tuneloop.core.brief import Brief
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import DataScript
from tuneloop.core.protocols import Toolbox

SOFTEN = (
    "drop_off_topic", "drop_unlikely_labels", "balance_answers", "keep_agreed", "require_steps", "cap_length",
    "drop_contradicted", "drop_false_equations", "finish_steps",
)  # fmt: skip
LONGER = re.compile(r"cutoff|too long|longer than|are cut|beyond|max_position", re.I)
OVERLAPS = re.compile(r"rows overlap with validation items")
REFUSED, MARK = re.compile(r"^REFUSED = \[.*?\]", re.MULTILINE | re.DOTALL), re.compile(r"\b[0-9a-f]{16}\b")


async def write_script(brief: Brief, tools: Toolbox) -> DataScript:
    """The hypothesis's plan as a script; a plan without sources gets those the profile speaks for."""
    situation = await read_situation(brief, tools)
    asked = brief.hypothesis.data_plan if brief.hypothesis else ()
    planned = followable(asked)
    plan = planned if find_step(planned, READ) else with_steps(first_plan(situation, ""), *planned)
    plan, changed = repair_plan(plan, situation)
    statement = brief.hypothesis.statement if brief.hypothesis else "A first recipe."
    skip = {source.id: source.profile.overlapping for source in situation.sources}
    form, task = form_of(brief.task, situation.facts), brief.task
    refused = await refused_questions(brief, tools)
    try:
        code = compose(purpose(statement, changed), plan, form, task.row_limit, task.seed, skip, refused)
    except (LookupError, TypeError, ValueError) as e:  # options as a chat model may write them
        raise RecipeError(f"the offline policy cannot follow the data plan: {e}", culprit="planner") from e
    left = ", ".join(step.do for step in asked if step not in planned)
    left = f"; left out, as the offline policy cannot do it: {left}" if left else ""
    return DataScript(code=code, notes=(changed or f"{len(plan)} steps of the data plan") + left)


async def refused_questions(brief: Brief, tools: Toolbox) -> list[str]:
    """Marks of the questions that the gate refused in this experiment: those the last script knew, and what came since."""
    if not brief.attempt:
        return []
    known = REFUSED.search(brief.script)
    marks = set(MARK.findall(known[0])) if known else set()
    if OVERLAPS.search(f"{brief.failure} {brief.diagnosis.problem if brief.diagnosis else ''}"):
        report = await call_or_none(tools, "data_report", experiment=brief.experiment) or {}
        marks |= {overlap["mark"] for overlap in report.get("overlaps", ())}
    return sorted(marks - {""})


def purpose(statement: str, changed: str) -> str:
    """Plain words for the head of the script; quotes and backslashes would end its docstring."""
    text = printable_line(f"{statement} {changed}").replace("\\", "/").replace('"', "'")
    return textwrap.fill(text, 111, break_long_words=False, break_on_hyphens=False)


def repair_plan(plan: Plan, situation: Situation) -> tuple[Plan, str]:
    """The plan after what the validator said; one filter less for every attempt that left too few rows."""
    diagnosis, brief = situation.brief.diagnosis, situation.brief
    if diagnosis is None or diagnosis.culprit not in ("script", "data"):
        return plan, ""
    said = f"{diagnosis.problem}\n{diagnosis.repair}\n{brief.failure}"
    if re.search(NO_ROWS, said, re.I):
        gone = [do for do in SOFTEN if find_step(plan, do)][: max(1, brief.attempt)]
        named = ", ".join(gone) or "nothing more to leave out"
        return without_steps(plan, *gone), f"Left out, as too few rows were left: {named}."
    if LONGER.search(said):
        times = max(1, brief.attempt) - (find_step(plan, "cap_length") is None)  # the longest go first
        room = max(40, int(0.6**times * solution_limit(plan, situation.sources)))
        why = f"the last attempt's rows were too long: {diagnosis.problem[:80]}"
        shorter = with_step(plan, "cap_length", why, question=situation.longest_question, solution=room)
        return shorter, f"Replies over {room} characters go."
    return plan, f"After: {diagnosis.repair[:120]}"
