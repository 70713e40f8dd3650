"""What becomes of a failure: at most three repairs at the culprit's node, then a failed experiment."""

from __future__ import annotations

from typing import Any

from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.errors import RecipeError
from tuneloop.graph.brief import brief
from tuneloop.graph.context import Context
from tuneloop.graph.state import Trouble

REPAIRS = 3
PLACE = {"script": "engineer_data", "data": "engineer_data", "config": "write_config"}


def give_up(ctx: Context, node: str, error: RecipeError) -> dict[str, Any]:  # noqa: ARG001
    """The experiment has failed; the critic explains it."""
    return {
        "stage": "critique",
        "trouble": Trouble(node=node, culprit=error.culprit or "unknown", text=str(error)[:4000]),
    }


def repair(ctx: Context, node: str, error: RecipeError) -> dict[str, Any]:
    """Ask the validator for the culprit and send the work back to its author."""
    if ctx.state.attempt >= REPAIRS or error.culprit == "environment":
        return give_up(ctx, node, error)
    try:
        diagnosis = ctx.ask(VALIDATOR, brief(ctx, failure=f"{node}: {error}"))
    except RecipeError as e:
        return give_up(ctx, node, e)
    if diagnosis.culprit not in PLACE:
        return give_up(ctx, node, error)
    trouble = Trouble(node=node, culprit=diagnosis.culprit, text=str(error)[:4000])
    return {"stage": PLACE[diagnosis.culprit], "attempt": ctx.state.attempt + 1, "trouble": trouble}
