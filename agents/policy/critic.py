"""The critic of the offline policy: says what the evidence of one experiment blames; the verdict is code's."""

from __future__ import annotations

import asyncio
import re

from tuneloop.agents.policy.data_moves import mean_doubt
from tuneloop.agents.policy.evidence import Evidence, read_evidence
from tuneloop.agents.policy.move_table import MoveTable, load_table, rank_moves
from tuneloop.agents.policy.moves import DIVERGING, Case
from tuneloop.agents.policy.parameter_map import read_parameter_map
from tuneloop.agents.policy.researcher import rule_moves
from tuneloop.agents.policy.situation import read_situation
from tuneloop.core.brief import Brief, JournalRow
from tuneloop.core.experiment import Critique, Training
from tuneloop.core.formatting import format_comparison
from tuneloop.core.protocols import Toolbox

BLAMED = 1.0  # points that a move of the aspect is expected to improve


async def explain(brief: Brief, tools: Toolbox, table: MoveTable | None = None) -> Critique:
    """Explanation, lesson and blame, from score, comparison, losses and failures."""
    if brief.score is None or brief.hypothesis is None:
        return explain_failure(brief)
    situation, parameter_map, evidence = await asyncio.gather(
        read_situation(brief, tools),
        read_parameter_map(tools, search=False),
        read_evidence(brief.task, journal_row(brief), tools),
    )
    case = Case(situation, evidence, parameter_map)
    blame = blamed_aspect(case, table or load_table())
    lesson = summarize_lesson(brief, evidence, blame)
    return Critique(explanation=describe_result(brief, case), lesson=lesson, blame=blame)


def blamed_aspect(case: Case, table: MoveTable) -> str:
    """Of a training that diverged or did not move the rate, else what the move changes that is expected to improve most."""
    stopped = case.evidence.training.stopped if case.evidence.training else None
    if stopped is not None and stopped.kind in (*DIVERGING, "flat"):
        return "rate"
    best = max(rank_moves(case, rule_moves(case), table, ""), key=lambda one: one.improvement, default=None)
    return best.move.aspect if best is not None and best.improvement > BLAMED else "none"


def journal_row(brief: Brief) -> JournalRow:
    """The experiment as the journal will show it."""
    score, hypothesis = brief.score, brief.hypothesis
    assert score is not None and hypothesis is not None
    return JournalRow(
        number=brief.experiment,
        outcome="promoted" if brief.comparison and not brief.reasons else "not promoted",
        hypothesis=hypothesis,
        rows=brief.training.rows if brief.training else None,
        training=brief.training,
        value=score.value,
        low=score.low,
        high=score.high,
        parsed=score.parsed,
        blame="none",
        lesson="",
        failure=None,
    )


def explain_failure(brief: Brief) -> Critique:
    """No score: what broke, and what that teaches."""
    line = next((text.strip() for text in brief.failure.splitlines() if text.strip()), "it left no score")[:200]
    planned = brief.hypothesis.aspect if brief.hypothesis else "none"
    aspect = "rate" if re.search(r"learning.rate is too", brief.failure) else planned
    explanation, lesson = f"Nothing was measured: {line}", f"This recipe does not run: {line}"
    return Critique(explanation=explanation, lesson=lesson, blame=aspect)


def describe_result(brief: Brief, case: Case) -> str:
    """What happened, in numbers."""
    e, c = case.evidence, brief.comparison
    parts = [f"Validation {e.value:.1f}, {e.parsed:.0f} % of answers readable, {e.rows} rows, {e.epochs:.1f} epochs."]
    if c is not None:
        parts.append(f"{c.wins} items won and {c.losses} lost against the incumbent: {format_comparison(c)}.")
    if (training := e.training) is not None:
        parts.append(describe_course(training))
        if (stop := training.stopped) is not None:
            at = f"step {stop.at} of {stop.of}"
            parts.append(f"The training was stopped at {at}; the model is that of step {stop.step}: {stop.text}.")
    if (s := e.said).count:
        parts.append(
            f"Of {s.count} failures {s.unparsed:.0%} have no answer, {s.endless:.0%} do not end, {s.stepless:.0%} show no steps, "
            f"{s.false_steps:.0%} hold a false equation."
        )
    parts.append(f"About {mean_doubt(case.sources, case.plan, case.situation):.0%} of the labels may still be wrong.")
    return " ".join(parts)


def describe_course(training: Training) -> str:
    """Loss, or of GRPO reward, over the steps."""
    if training.reward is not None:
        return f"Replies earned {training.reward[0]:.2f} of 1 at first, {training.reward[1]:.2f} at last."
    return f"Loss {training.first_loss:.2f} → {training.last_loss:.3f}, slope at the end {training.tail_slope:+.2f}."


def summarize_lesson(brief: Brief, evidence: Evidence, blame: str) -> str:
    """One sentence worth keeping."""
    idea, c = evidence.hypothesis, brief.comparison
    if c is not None and c.better:
        verdict = f"gave {format_comparison(c)}"
        verdict += f" but forgot too much: {'; '.join(brief.reasons)}" if brief.reasons else ""
    else:
        verdict = f"did not help ({c.gain:+.1f} points)" if c is not None else f"reached {evidence.value:.1f}"
    after = f" What is left looks like {blame}." if blame != "none" else ""
    return f"{idea.aspect}: {idea.statement.rstrip('.')} {verdict}.{after}"
