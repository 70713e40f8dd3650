"""An answer to what a run asks: written down once, and said."""

from __future__ import annotations

from tuneloop.core.approval import Asked, Decision
from tuneloop.core.events import Approval
from tuneloop.graph.context import Context
from tuneloop.tools.runs.approvals import decide, find_decision


def answered(ctx: Context, asked: Asked, decision: Decision) -> Decision:
    """Write the answer down and say it; the first answer holds."""
    folder = ctx.run.experiment(asked.experiment)
    known = find_decision(folder, asked.at, asked.key)
    if known is not None:
        return known
    say(ctx, asked, decision.decision, decision.reason)
    return decide(folder, asked.at, asked.key, decision)


def say(ctx: Context, asked: Asked, decision: str, reason: str = "") -> None:
    """The event."""
    said = {"experiment": asked.experiment, "when": asked.at, "decision": decision, "reason": reason[:500]}
    ctx.emit(Approval.model_validate(said))
