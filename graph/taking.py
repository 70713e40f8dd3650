"""What becomes of what was understood: an answer from the run's files, a directive, one that is taken back, a yes or a no."""

from __future__ import annotations

from collections.abc import Iterable

from tuneloop.core.approval import Decision
from tuneloop.core.directive import (
    Delete,
    Directive,
    Extend,
    Meaning,
    Pause,
    Publish,
    Question,
    Reply,
    Revoke,
    Unclear,
    Wish,
    dangerous,
)
from tuneloop.core.directive_log import read_directives, write_down
from tuneloop.core.directive_words import described
from tuneloop.graph.context import Context
from tuneloop.graph.deciding import answered as answered_question
from tuneloop.graph.removing import removed
from tuneloop.graph.telling import acknowledged, answered, publish, scope, unclear
from tuneloop.graph.weighing import objection, replaced
from tuneloop.tools.runs.approvals import open_question

NOTHING_WAITS = "Nothing waits for a yes or a no."


def take(ctx: Context, message: str, text: str, meaning: Meaning) -> str:
    """The effect of one meaning, and the answer."""
    match meaning:
        case Question():
            return answered(ctx, meaning)
        case Revoke():
            return revoke(ctx, message, meaning)
        case Reply():
            return decide(ctx, message, meaning)
        case Unclear():
            return unclear(meaning)
        case _:
            return give(ctx, message, text, meaning)


def give(ctx: Context, message: str, text: str, wish: Wish, *, sure: bool = True) -> str:
    """Write a directive down, once for each place of each message; one that cannot be met is only answered.

    What is not `sure` to be meant waits for a yes, as what is dangerous does.
    """
    given = read_directives(ctx.run.directives)
    found = next((d for d in given if d.message == message), None)
    if found is None:
        if wrong := objection(ctx, wish, given):
            return f"That cannot be done: {wrong}. Nothing was changed."
        holds = [d for d in given if d.state == "open" and d.wish == wish and not isinstance(wish, Extend)]
        if holds:
            return f"{holds[0].id}: {described(wish)}. It holds already."
        state = "pending" if dangerous(wish) or not sure else "done" if isinstance(wish, Pause) else "open"
        found = Directive(id=str(len(given) + 1), message=message, said=text, wish=wish, state=state)
        leave_alone(ctx, given if state == "pending" else ())
        write_down(ctx.run.directives, found)
    return in_force(ctx, found) if found.state == "open" else acknowledged(found)


def leave_alone(ctx: Context, given: Iterable[Directive]) -> None:
    """Only the newest waits for a yes, so that no yes is taken for another."""
    for directive in given:
        if directive.state == "pending":
            write_down(ctx.run.directives, directive.model_copy(update={"state": "revoked"}))


def in_force(ctx: Context, found: Directive) -> str:
    """The answer to a directive that is obeyed from now on; what it replaces is over."""
    given = read_directives(ctx.run.directives)
    over = replaced(found.wish, [d for d in given if d.id != found.id])
    for directive in given:
        if directive.id in over:
            write_down(ctx.run.directives, directive.model_copy(update={"state": "revoked"}))
    instead = f" It takes the place of {', '.join(over)}." if over else ""
    return f"{acknowledged(found)}{instead}{scope(ctx, found.wish)}"


def revoke(ctx: Context, message: str, meaning: Revoke) -> str:
    """Take directives back, once for each place of each message."""
    known = read_directives(ctx.run.directives)
    given = [d for d in known if d.state in ("open", "pending")]
    meant = [d for d in known if d.ended_by == message]
    if not meant:
        meant = [d for d in given if d.id in meaning.ids] if meaning.ids else given[-1:]
    for directive in meant:
        write_down(ctx.run.directives, directive.model_copy(update={"state": "revoked", "ended_by": message}))
    if not meant:
        return "There is no such directive. /directives lists them."
    return "Taken back: " + "; ".join(f"{d.id} ({d.said})" for d in meant)


def decide(ctx: Context, message: str, meaning: Reply) -> str:
    """Yes or no to what is pending, once for each place of each message: no yes is taken for another."""
    given = read_directives(ctx.run.directives)
    before = [d for d in given if d.ended_by == message]
    pending = next((d for d in reversed(before or given) if before or d.state == "pending"), None)
    if pending is None:
        return approve(ctx, meaning)
    by_hand = isinstance(pending.wish, Delete | Publish)
    state = "revoked" if not meaning.yes else "done" if by_hand else "open"
    write_down(ctx.run.directives, decided := pending.model_copy(update={"state": state, "ended_by": message}))
    if not meaning.yes:
        return f"Left alone: {pending.said}"
    if isinstance(decided.wish, Delete):
        return removed(ctx, decided.wish.what)
    return publish(ctx) if by_hand else in_force(ctx, decided)


def approve(ctx: Context, meaning: Reply) -> str:
    """Yes or no to the plan or the launch that waits."""
    asked = open_question(ctx.run)
    if asked is None:
        return NOTHING_WAITS
    answer = Decision(decision="yes" if meaning.yes else "no", reason=meaning.reason)
    answered_question(ctx, asked, answer)
    told = "goes on" if meaning.yes else "is turned down"
    return f"The {asked.at} of experiment {asked.experiment} {told}."
