"""What people say to a run: taken from the inbox, understood, answered, turned into directives; each message once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pydantic import ValidationError

from tuneloop.agents.steering import Known, understand
from tuneloop.core.approval import Decision
from tuneloop.core.directive import (
    MEANING,
    Delete,
    Directive,
    Line,
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
from tuneloop.core.directive_log import read_conversation, read_directives, write_down
from tuneloop.core.errors import Paused
from tuneloop.core.events import Told
from tuneloop.core.files import read_json
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.deciding import answered as answered_question
from tuneloop.graph.obeying import catalog, written
from tuneloop.graph.telling import acknowledged, answered, scope, unclear, yourself
from tuneloop.graph.weighing import objection, replaced
from tuneloop.tools.data_view import sources_of
from tuneloop.tools.params.spoken import parameter_names, value_names
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.inbox import waiting
from tuneloop.tools.runs.journal import load_journal


def obey(ctx: Context) -> None:
    """Take every message. Raises Paused when one asks for it."""
    pause = False
    for file in waiting(ctx.run.inbox):
        message = read_json(file)
        pause = pause or message.get("do") == "pause"
        if message.get("do") == "say":
            pause = (
                hear(ctx, str(message.get("id", file.stem)), str(message.get("text", "")), meant(message))[1] or pause
            )
        file.unlink()
    if pause:
        raise Paused("stopped on request")


def meant(message: dict[str, str]) -> tuple[Meaning, ...]:
    """What a message says it means, as commands do; () when its words are to be understood."""
    with contextlib.suppress(KeyError, ValidationError):
        return (MEANING.validate_json(message["meaning"]),)
    return ()


def hear(ctx: Context, message: str, text: str, meant: tuple[Meaning, ...] = ()) -> tuple[str, bool]:
    """Answer one message, and whether it asks for a pause. One that was answered before gets the same answer and no effect."""
    before = next((line for line in read_conversation(ctx.run.conversation) if line.answers == message), None)
    if before is not None:
        return before.text, False
    write_down(ctx.run.conversation, Line(id=message, who="user", text=text))
    meanings = meant or understand(text, known(ctx))
    told = "\n".join(take(ctx, f"{message}#{place}", text, meaning) for place, meaning in enumerate(meanings))
    write_down(ctx.run.conversation, Line(id=f"{message}.answer", who="tuneloop", text=told, answers=message))
    ctx.emit(Told(experiment=ctx.state.experiment, said=text[:500], answer=told[:2000]))
    return told, any(isinstance(meaning, Pause) for meaning in meanings)


def known(ctx: Context) -> Known:
    """What the run knows when it is spoken to."""
    given = tuple(read_directives(ctx.run.directives))
    names = sources_of(ctx.bench.setup.datasets) if ctx.run.setup.is_file() else ctx.bench.spec.datasets
    journal, limit = load_journal(ctx.run), experiments_limit(ctx.run, ctx.bench.spec)
    best = journal.best
    return Known(
        directives=given,
        sources=names,
        experiment=ctx.state.experiment,
        parameters=parameter_names(catalog(ctx)),
        values=value_names(),
        now=written(ctx.run, best.number) if best else {},
        experiments_left=None if limit is None else limit - len(journal.experiments),
        seconds_left=ctx.seconds_left(),
        asked=open_question(ctx.run) is not None,
    )


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


def give(ctx: Context, message: str, text: str, wish: Wish) -> str:
    """Write a directive down, once for each place of each message; one that cannot be met is only answered."""
    given = read_directives(ctx.run.directives)
    found = next((d for d in given if d.message == message), None)
    if found is None:
        if wrong := objection(ctx, wish, given):
            return f"That cannot be done: {wrong}. Nothing was changed."
        state = "pending" if dangerous(wish) else "done" if isinstance(wish, Pause) else "open"
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
    return yourself(ctx, decided) if by_hand else in_force(ctx, decided)


def approve(ctx: Context, meaning: Reply) -> str:
    """Yes or no to the plan or the launch that waits."""
    asked = open_question(ctx.run)
    if asked is None:
        return "Nothing waits for a yes or a no."
    answer = Decision(decision="yes" if meaning.yes else "no", reason=meaning.reason)
    answered_question(ctx, asked, answer)
    told = "goes on" if meaning.yes else "is turned down"
    return f"The {asked.at} of experiment {asked.experiment} {told}."
