"""What a person is shown before an experiment goes on, as text and as Studio and Agent Inbox show it, and the answer."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from tuneloop.core.budget import KINDS, SpendingLine, format_amount, spending_lines
from tuneloop.core.commands import find_command
from tuneloop.core.directive import Reply
from tuneloop.core.events import Approval
from tuneloop.core.experiment import ApprovalDecision, ApprovalPoint, ApprovalRequest, Forecast, Hypothesis
from tuneloop.core.files import read_json, read_model, read_text
from tuneloop.core.formatting import format_duration, format_size
from tuneloop.graph.context import Context
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.budget.spending import experiment_spending
from tuneloop.tools.budget.spending import run_spending as spent_by
from tuneloop.tools.runs.approvals import find_decision, write_decision
from tuneloop.tools.runs.journal import load_journal

# An answer to what a run asks: written down once, and said.


def answered(ctx: Context, asked: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecision:
    """Write the answer down and say it; the first answer holds."""
    folder = ctx.run.experiment(asked.experiment)
    known = find_decision(folder, asked.at, asked.key)
    if known is not None:
        return known
    say(ctx, asked, decision.decision, decision.reason)
    return write_decision(folder, asked.at, asked.key, decision)


def say(ctx: Context, asked: ApprovalRequest, decision: str, reason: str = "") -> None:
    """The event."""
    said = {"experiment": asked.experiment, "when": asked.at, "decision": decision, "reason": reason[:500]}
    ctx.emit(Approval.model_validate(said))


ACTIONS: dict[ApprovalPoint, str] = {"plan": "carry_out_plan", "launch": "launch_training", "stop": "stop_run"}
FILES = ("process_data.py", "train.yaml")
TAKES = {
    "approve": "yes",
    "accept": "yes",
    "edit": "edit",
    "reject": "no",
    "ignore": "no",
    "response": "no",
    "respond": "no",
}


def proposal(ctx: Context, at: ApprovalPoint) -> str:
    """Idea, steps, recipe, what was spent so far, and what this will cost."""
    folder = ctx.folder
    idea = read_model(folder.hypothesis, Hypothesis)
    values = ", ".join(f"{name}: {value}" for name, value in idea.training_plan.items())
    steps = [
        f"  {number}. {step.do}{f' ({step.why})' if step.why else ''}" for number, step in enumerate(idea.data_plan, 1)
    ]
    asked = "carry out this plan" if at == "plan" else "launch this training"
    lines = [
        f"Experiment {ctx.state.experiment}: {asked}?",
        f"Idea: {idea.statement}",
        f"Because: {idea.reason}",
        f"Wrong if: {idea.disproof}",
        *(["Data:", *steps] if steps else []),
        *([f"Training: {values}"] if values else []),
        f"Recipe: {folder.script}, {folder.config}",
        f"So far: {spent(ctx)}",
        f"This one: {forecast(ctx, at)}",
    ]
    return "\n".join(lines)


def stop_proposal(ctx: Context, idea: Hypothesis) -> str:
    """Why the researcher proposes to stop, and what was spent so far."""
    lines = (
        f"Experiment {ctx.state.experiment}: the researcher proposes to stop. Shall the run finish?",
        f"It says: {idea.statement}",
        f"Because: {idea.reason}",
        f"So far: {spent(ctx)}",
        "yes: the best model so far is tested and delivered. no REASON: the researcher proposes another experiment.",
    )
    return "\n".join(lines)


def spent(ctx: Context) -> str:
    """Experiments, time, and what models and GPUs were used."""
    done, used = load_journal(ctx.run).experiments, spent_by(ctx.run, ctx.state.spent)
    found = [
        line
        for line in spending_lines(used, current_limits(ctx.run, ctx.run_tools.spec))
        if line.spent or line.limit is not None
    ]
    more = f" (without {', '.join(used.unpriced)}, whose price is unknown)" if used.unpriced else ""
    return ", ".join((f"{len(done)} experiments over", *map(told, found))) + more


def told(line: SpendingLine) -> str:
    """`time 1 h 05 min of 2 h 00 min, 55 min 00 s left`."""
    left = "" if line.left is None else f", {format_amount(line.kind, line.left)} left"
    return f"{line.kind} {line}{left}"


def forecast(ctx: Context, at: ApprovalPoint) -> str:
    """What the smoke run says; before it, what experiments took so far."""
    if at == "launch" and ctx.folder.forecast.is_file():
        said = read_model(ctx.folder.forecast, Forecast)
        device = f", {format_size(said.device_memory)} on the device" if said.device_memory else ""
        whole = f"{said.steps} steps in about {format_duration(said.seconds)} ({said.cpu:.0f} CPU-s)"
        return f"{whole}, {format_size(said.memory)} of memory{device}, {format_size(said.disk)} of disk"
    usual = load_journal(ctx.run).usual_seconds
    if usual is not None:
        dear = [*experiment_spending(ctx.run).values()]
        each = [
            f"up to {format_amount(kind, most)}"
            for kind in KINDS[1:]
            if (most := max((one.of(kind) for one in dear), default=0))
        ]
        so_far = ", ".join((format_duration(usual), *each))
        return f"an experiment usually takes {so_far}; its training is forecast before it starts"
    return "the first one; its training is forecast before it starts"


def payload(ctx: Context, asked: ApprovalRequest, note: str) -> dict[str, Any]:
    """The interrupt, in the form of langchain's human-in-the-loop middleware, which Studio and Agent Inbox show."""
    name, folder = ACTIONS[asked.at], ctx.folder
    args, allowed = dict[str, Any](), ["approve", "reject"]
    if asked.at != "stop":  # then there is no recipe yet
        args = {file.name: read_text(file) for file in (folder.script, folder.config)}
        args["hypothesis"] = read_json(folder.hypothesis)
        allowed.insert(1, "edit")
    text = f"{note}\n\n{asked.text}" if note else asked.text
    return {
        "action_requests": [{"name": name, "args": args, "description": text}],
        "review_configs": [{"action_name": name, "allowed_decisions": allowed}],
        "run_id": ctx.run.id,
        "experiment": asked.experiment,
    }


def understood(value: Any, ctx: Context) -> ApprovalDecision | None:
    """The answer, in any of the forms in which one comes: true, "no, too dear", the middleware's or the inbox's object."""
    if isinstance(value, bool):
        return ApprovalDecision(decision="yes" if value else "no")
    if isinstance(value, str):
        return of_text(value)
    if isinstance(value, list) and len(value) == 1:
        return understood(value[0], ctx)
    if not isinstance(value, dict):
        return None
    if "decisions" in value:
        return understood(value["decisions"], ctx)
    return of_object(value, ctx)


def of_text(text: str) -> ApprovalDecision | None:
    """Yes or no, with a reason."""
    reply = find_command(text)
    return (
        ApprovalDecision(decision="yes" if reply.yes else "no", reason=reply.reason)
        if isinstance(reply, Reply)
        else None
    )


def of_object(value: dict[str, Any], ctx: Context) -> ApprovalDecision | None:
    """`{"type": "approve"}`, `{"type": "reject", "message": …}`, `{"type": "edit", "edited_action": {"args": …}}`."""
    kind = TAKES.get(str(value.get("type", value.get("decision", ""))), str(value.get("decision", "")))
    args = value.get("edited_action") or value.get("args") or {}
    if kind == "edit" and isinstance(args, dict) and ctx.folder.hypothesis.is_file():
        return changes(args.get("args", args), ctx)
    if kind not in ("yes", "no"):
        return None
    reason = value.get("message") or value.get("reason") or (args if isinstance(args, str) else "")
    return ApprovalDecision.model_validate({"decision": kind, "reason": str(reason)})


def changes(args: dict[str, Any], ctx: Context) -> ApprovalDecision | None:
    """What differs from what was shown; nothing does: it is a yes."""
    folder = ctx.folder
    now = {file.name: read_text(file) for file in (folder.script, folder.config)}
    files = {name: str(args[name]) for name in FILES if args.get(name) and args[name] != now[name]}
    idea = args.get("hypothesis")
    idea = None if idea in (None, read_json(folder.hypothesis)) else idea
    try:
        return ApprovalDecision.model_validate(
            {"decision": "edit" if files or idea else "yes", "files": files, "hypothesis": idea}
        )
    except ValidationError:
        return None
