"""What becomes of a failure: at most three repairs at the culprit's node, then a failed experiment."""

from __future__ import annotations

from typing import Any

from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_field, write_json
from tuneloop.graph.agent_calls.brief import build_brief
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.context import Context
from tuneloop.graph.state import NodeFailure

REPAIRS = 3
PLACE = {"script": "engineer_data", "data": "engineer_data", "config": "write_config"}


def give_up(ctx: Context, node: str, error: RecipeError) -> dict[str, Any]:
    """The experiment has failed; the critic explains it."""
    return record_failure(
        ctx, NodeFailure(node=node, culprit=error.culprit or "unknown", text=str(error)[:4000], leads="critique")
    )


def repair(ctx: Context, node: str, error: RecipeError) -> dict[str, Any]:
    """Ask the validator for the culprit and send the work back to its author."""
    if ctx.state.attempt - count_user_edits(ctx) >= REPAIRS or error.culprit in ("environment", "user"):
        return give_up(ctx, node, error)
    try:
        diagnosis = run_agent(ctx, VALIDATOR, build_brief(ctx, failure=f"{node}: {error}", blamed=error.culprit))
    except RecipeError as e:
        return give_up(ctx, node, e)
    if diagnosis.culprit not in PLACE:
        return give_up(ctx, node, error)
    culprit = diagnosis.culprit
    back = record_failure(ctx, NodeFailure(node=node, culprit=culprit, text=str(error)[:4000], leads=PLACE[culprit]))
    return {**back, "attempt": ctx.state.attempt + 1}


def count_user_edits(ctx: Context) -> int:
    """Attempts that the user wrote: no repairs."""
    files = ctx.folder.failures.glob("[0-9]*.json")
    return sum(read_field(file, "culprit", str) == "user" for file in files)


def record_failure(ctx: Context, failure: NodeFailure) -> dict[str, Any]:
    """Write the decision down, so that it can be found without a checkpoint, and go where it leads."""
    write_json(ctx.folder.failures / f"{ctx.state.attempt}.json", failure.model_dump(mode="json"))
    return {"stage": failure.leads, "failure": failure}
