"""Near a limit there is a warning; at one a person is asked for more where one is there, else the run comes to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tuneloop.core.budget import NEAR, SpendingLine
from tuneloop.core.errors import PausedError
from tuneloop.core.events import LimitWarning
from tuneloop.core.files import digest
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.graph.steering.llm_listener import converse
from tuneloop.tools.budget.limits import is_marked, set_mark

MARGIN = 1.2  # what the next experiment may take more than the dearest so far
NO = ("finish", "no", "reject", "ignore", "false")
EXAMPLES = {
    "time": "`more 2h`",
    "GPU-hours": "`more 2 GPU-hours`",
    "tokens": "`more 200k tokens`",
    "money": "`more $5`",
}


def warn_near_limits(ctx: Context, since: float = 0.0) -> None:
    """Say, once for each limit, that four fifths of it are spent; `since`: seconds since this node began."""
    for line in ctx.spent_of_limits(since):
        if line.share >= NEAR and not is_marked(ctx.run, "warned", line):
            assert line.limit is not None
            ctx.emit(LimitWarning(experiment=ctx.state.experiment, of=line.kind, spent=line.spent, limit=line.limit))
            set_mark(ctx.run, "warned", line.kind, line.limit)


def refused_limits(ctx: Context) -> list[SpendingLine]:
    """Limits into which a call of a model did not fit."""
    return [line for line in ctx.spent_of_limits() if is_marked(ctx.run, "reached", line)]


def ask_for_more(ctx: Context, short: Callable[[], Sequence[SpendingLine]]) -> bool:
    """Whether nothing is short, perhaps because a person granted more; the person may answer "finish" instead.

    Each answer is heard once, whatever is run again of the node.
    """
    from langgraph.config import get_config  # takes 0.4 s: `tuneloop chat` answers without it
    from langgraph.types import interrupt

    note, number = "", 0
    # Of this entry into the node, also when langgraph runs it again: answers come back by their place.
    entry = digest(str(get_config()["configurable"].get("checkpoint_ns", "")))[:12] if ctx.interactive else ""
    while lines := short():
        if not ctx.interactive or is_finish_requested(ctx.run):
            return False
        message = f"budget.{entry}.{number}"
        text = answer_text(interrupt({"question": f"{note}{budget_question(lines)}", "run_id": ctx.run.id}))
        handled = converse(ctx, message, "finish" if text.lower().strip(" .!") in NO else text)
        if handled.pause:
            raise PausedError("stopped on request")
        note, number = f"{handled.text}\n\n", number + 1
    return True


def budget_question(lines: Sequence[SpendingLine]) -> str:
    """What is asked."""
    spent = "; ".join(f"{line.kind}: {line}" for line in lines)
    examples = " or ".join(EXAMPLES[line.kind] for line in lines)
    return (
        f"What comes next does not fit into what is left. Spent: {spent}. Send {examples} for more, or "
        "`finish`: the best model so far is tested and delivered."
    )


def answer_text(value: Any) -> str:
    """An answer in any of the forms in which one comes: a text, false, or an object with a text."""
    if isinstance(value, list) and len(value) == 1:
        return answer_text(value[0])
    if isinstance(value, dict):
        said = (value.get(name) for name in ("text", "message", "args", "reason", "type", "decision"))
        return answer_text(next((one for one in said if one), ""))
    return str(value)
