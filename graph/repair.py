"""What becomes of a failure: at most three repairs at the culprit's node, then a failed experiment."""

from __future__ import annotations

from typing import Any

from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.asking import ask
from tuneloop.graph.brief import brief
from tuneloop.graph.context import Context
from tuneloop.graph.state import Trouble

REPAIRS = 3
PLACE = {"script": "engineer_data", "data": "engineer_data", "config": "write_config"}


def give_up(ctx: Context, node: str, error: RecipeError) -> dict[str, Any]:
    """The experiment has failed; the critic explains it."""
    return settle(ctx, Trouble(node=node, culprit=error.culprit or "unknown", text=str(error)[:4000], leads="critique"))


def repair(ctx: Context, node: str, error: RecipeError) -> dict[str, Any]:
    """Ask the validator for the culprit and send the work back to its author."""
    if ctx.state.attempt - changes(ctx) >= REPAIRS or error.culprit in ("environment", "user"):
        return give_up(ctx, node, error)
    try:
        diagnosis = ask(ctx, VALIDATOR, brief(ctx, failure=f"{node}: {error}", blamed=error.culprit))
    except RecipeError as e:
        return give_up(ctx, node, e)
    if diagnosis.culprit not in PLACE:
        return give_up(ctx, node, error)
    culprit = diagnosis.culprit
    back = settle(ctx, Trouble(node=node, culprit=culprit, text=str(error)[:4000], leads=PLACE[culprit]))
    return {**back, "attempt": ctx.state.attempt + 1}


def changes(ctx: Context) -> int:
    """Attempts that the user wrote: no repairs."""
    files = ctx.folder.troubles.glob("[0-9]*.json")
    return sum(read_json(file)["culprit"] == "user" for file in files)


def settle(ctx: Context, trouble: Trouble) -> dict[str, Any]:
    """Write the decision down, so that it can be found without a checkpoint, and go where it leads."""
    write_json(ctx.folder.troubles / f"{ctx.state.attempt}.json", trouble.model_dump(mode="json"))
    return {"stage": trouble.leads, "trouble": trouble}
