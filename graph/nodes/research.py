"""research: the researcher proposes one idea; a new experiment begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.errors import RecipeError
from tuneloop.core.events import RecipeFailure
from tuneloop.core.files import write_json
from tuneloop.graph.agent_calls.brief import build_brief, journal_failures
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.repair import give_up
from tuneloop.tools.runs.journal import load_journal


def research(ctx: Context) -> dict[str, Any]:
    """Open the next experiment with a hypothesis."""
    number = len(load_journal(ctx.run).experiments) + 1
    here = replace(ctx, state=ctx.state.model_copy(update={"experiment": number, "attempt": 0, "failure": None}))
    opened = {"experiment": number, "attempt": 0, "failure": None}
    try:
        propose_hypothesis(here)
    except RecipeError as e:
        here.emit(RecipeFailure(experiment=number, node="research", culprit=e.culprit or "unknown", text=str(e)[:2000]))
        return {**opened, **give_up(here, "research", e)}
    return {**opened, "stage": "engineer_data"}


def propose_hypothesis(ctx: Context) -> None:
    """The hypothesis, found or asked for."""
    if not ctx.folder.hypothesis.is_file():
        answer = run_agent(ctx, RESEARCHER, build_brief(ctx, failures=journal_failures(ctx)))
        write_json(ctx.folder.hypothesis, answer.model_dump(mode="json"))
