"""research: the researcher proposes one idea, which opens a new experiment, or to stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneloop.agents.policy import expected_moves
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.brief import ExpectedMove
from tuneloop.core.errors import RecipeError
from tuneloop.core.events import RecipeFailure
from tuneloop.core.experiment import Hypothesis, Journal
from tuneloop.core.files import write_json
from tuneloop.graph.agent_calls.brief import build_brief, journal_failures
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.approval.gate import asked_to_stop
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.repair import give_up
from tuneloop.tools.runs.journal import load_journal

UNTIL_LIMITS = "the user wants experiments until a limit is reached."


def research(ctx: Context) -> dict[str, Any]:
    """Open the next experiment with a hypothesis, or finish where the researcher proposes to stop."""
    number = ctx.slot or len(load_journal(ctx.run).experiments) + 1
    opened = {"experiment": number, "attempt": 0, "failure": None}
    here = replace(ctx, state=ctx.state.model_copy(update=opened))
    try:
        stopped = not propose_hypothesis(here)
    except TooEarlyError:
        return {"stage": "research"}
    except RecipeError as e:
        here.emit(RecipeFailure(experiment=number, node="research", culprit=e.culprit or "unknown", text=str(e)[:2000]))
        return {**opened, **give_up(here, "research", e)}
    if stopped:  # no experiment is opened
        return {"stage": "finish", "attempt": 0, "failure": None}
    return {**opened, "stage": "engineer_data"}


class TooEarlyError(Exception):
    """The researcher proposes to stop before the results of all experiments are known."""


def propose_hypothesis(ctx: Context) -> bool:
    """Find the hypothesis or ask for it; False: the researcher proposes to stop, and that is what follows.

    Raises TooEarlyError where experiments beside this one must end before that can be said.
    """
    if ctx.folder.hypothesis.is_file():
        return True
    ranked = ranked_moves(ctx)
    answer = run_agent(ctx, RESEARCHER, build_brief(ctx, failures=journal_failures(ctx), ranked=ranked))
    if answer.stop and len(ctx.journal.experiments) < ctx.number - 1:
        if len(load_journal(ctx.run).experiments) < ctx.number - 1:
            raise TooEarlyError
        ctx = replace(ctx, all_results=True, state=ctx.state.model_copy(update={"attempt": 1}))
        ranked = ranked_moves(ctx)
        answer = run_agent(ctx, RESEARCHER, build_brief(ctx, failures=journal_failures(ctx), ranked=ranked))
    if answer.stop:
        if not (refusal := stop_refusal(ctx, answer)):
            write_json(ctx.run.stop, {"statement": answer.statement, "reason": answer.reason})
            return False
        again = replace(ctx, state=ctx.state.model_copy(update={"attempt": ctx.state.attempt + 1}))
        brief = build_brief(again, failures=journal_failures(ctx), ranked=ranked, stop_refused=refusal)
        answer = run_agent(again, RESEARCHER, brief)
    if answer.stop:
        raise RecipeError(f"the researcher proposes nothing but to stop: {answer.reason}", culprit="planner")
    known: dict[str, Any] = {"parent": chosen_parent(answer, ctx.journal)}
    if ranked:  # what a chat model expects is not what the table does
        known["expected_gain"] = next((one.gain for one in ranked if one.kind == answer.move), None)
    write_json(ctx.folder.hypothesis, answer.model_copy(update=known).model_dump(mode="json"))
    return True


def ranked_moves(ctx: Context) -> tuple[ExpectedMove, ...]:
    """What a chat model is shown of the table of moves; nothing for the policy, which reads it itself."""
    if not ctx.settings.chat_model:
        return ()
    return run_sync(_ranked_moves(ctx))


async def _ranked_moves(ctx: Context) -> tuple[ExpectedMove, ...]:
    from tuneloop.mcp_servers.client import open_toolbox  # fastmcp is slow to import: only where it is needed

    async with open_toolbox(ctx.scope, RESEARCHER.tools) as tools:
        return await expected_moves(build_brief(ctx), tools)


def chosen_parent(idea: Hypothesis, journal: Journal) -> int | None:
    """The experiment that the idea builds on: the one it names, else the incumbent; None: from scratch."""
    if idea.parent is not None:
        return idea.parent or None
    return journal.best.number if journal.best else None


def stop_refusal(ctx: Context, idea: Hypothesis) -> str:
    """Why the run goes on all the same; "" where it finishes."""
    wanted = ctx.run_tools.spec.on_stop
    if wanted == "finish" or is_finish_requested(ctx.run):
        return ""
    if wanted == "continue":
        return UNTIL_LIMITS
    decision = asked_to_stop(ctx, idea)
    return "" if decision.decision == "yes" else decision.reason or UNTIL_LIMITS
