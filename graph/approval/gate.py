"""Ask a person before an experiment goes on: an interrupt of the graph, and a file that remembers the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.types import interrupt

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import ApprovalDecision, ApprovalPoint, ApprovalRequest, Hypothesis
from tuneloop.core.files import digest, read_text, write_json
from tuneloop.graph.approval.proposal import answered, payload, proposal, say, stop_proposal, understood
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.repair import record_failure
from tuneloop.graph.state import NodeFailure
from tuneloop.tools.runs.approvals import (
    approve_at,
    find_decision,
    has_question,
    recipe_key,
    write_decision,
    write_question,
)

Update = dict[str, Any]
USER = "user"
LAUNCHED: dict[ApprovalPoint, str] = {"plan": "build_data", "launch": "train"}


def asks(at: ApprovalPoint, node: Callable[[Context], Update]) -> Callable[[Context], Update]:
    """The node, after a person said yes to the recipe where the run was told to ask."""

    def gated(ctx: Context) -> Update:
        decision = found_or_asked(ctx, at)
        if decision.decision == "no":
            because = f": {decision.reason}" if decision.reason else ""
            raise RecipeError(f"the {at} was turned down by the user{because}", culprit=USER)
        return edited(ctx, at, decision) if decision.decision == "edit" else node(ctx)

    return gated


def found_or_asked(ctx: Context, at: ApprovalPoint) -> ApprovalDecision:
    """The answer for this very recipe: on disk, or asked for; yes where nobody wants to be asked."""
    folder, this = ctx.folder, recipe_key(ctx.folder, ctx.state.attempt)
    found = find_decision(folder, at, this)
    if found is not None:
        return found
    begun = is_launched(ctx, at) and not has_question(folder)
    if begun or approve_at(ctx.run, ctx.run_tools.spec) != at:
        yes = ApprovalDecision(decision="yes", reason="nobody wants to be asked any more")
        return write_decision(folder, at, this, yes) if has_question(folder) else yes
    return ask(ctx, ApprovalRequest(at=at, experiment=ctx.state.experiment, key=this, text=proposal(ctx, at)))


def is_launched(ctx: Context, at: ApprovalPoint) -> bool:
    """Whether this recipe was carried out already: it, and no attempt before it."""
    failed = ctx.folder.failures / f"{ctx.state.attempt - 1}.json"
    since = failed.stat().st_mtime if failed.is_file() else 0.0
    jobs = ctx.folder.jobs.glob(f"{LAUNCHED[at]}.[0-9]*")
    return any(
        (job / "command.json" if (job / "command.json").is_file() else job).stat().st_mtime >= since for job in jobs
    )


def asked_to_stop(ctx: Context, idea: Hypothesis) -> ApprovalDecision:
    """What a person says to the researcher's proposal to stop: on disk, or asked for."""
    key = digest(idea.model_dump_json())
    text = stop_proposal(ctx, idea)
    found = find_decision(ctx.folder, "stop", key)
    return found or ask(ctx, ApprovalRequest(at="stop", experiment=ctx.state.experiment, key=key, text=text))


def ask(ctx: Context, asked: ApprovalRequest) -> ApprovalDecision:
    """Interrupt the graph until there is an answer; it is written down before anything follows from it."""
    if write_question(ctx.folder, asked):
        say(ctx, asked, "asked")
    note = ""
    while (answer := understood(interrupt(payload(ctx, asked, note)), ctx)) is None:
        note = "Not understood. Right is yes, no with a reason, or the changed files."
    return answered(ctx, asked, answer)


def edited(ctx: Context, at: ApprovalPoint, decision: ApprovalDecision) -> Update:
    """The recipe as the user wants it is the next attempt: written as its authors' answers, checked from the first check on.

    With another hypothesis, agents write what the user has not written, and it is shown again.
    """
    folder, attempt, texts = ctx.folder, ctx.state.attempt + 1, dict[str, str]()
    for agent, part, file in (("data_engineer", "code", folder.script), ("config_coder", "yaml", folder.config)):
        text = decision.files.get(file.name)  # type: ignore[call-overload]
        if text is None and decision.hypothesis is None:
            text = read_text(file)
        if text is not None:
            texts[part] = text
            write_json(folder.answers / f"{agent}.{attempt}.json", {part: text, "notes": "as the user wants it"})
    if decision.hypothesis is not None:
        write_json(folder.hypothesis, decision.hypothesis.model_dump(mode="json"))
    if at == "plan" and len(texts) == 2:  # all of it was just read by the one who would be asked
        new = digest(str(attempt), texts["code"].encode(), texts["yaml"].encode())
        write_decision(folder, at, new, ApprovalDecision(decision="yes", reason="as the user wrote it"))
    what = ", ".join([*decision.files, *(["hypothesis"] if decision.hypothesis else [])])
    failure = NodeFailure(node="approval", culprit=USER, text=f"changed by the user: {what}", leads="engineer_data")
    return {**record_failure(ctx, failure), "attempt": attempt}
