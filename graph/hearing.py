"""What people say to a run: taken from the inbox, understood, answered, turned into directives; each message once."""

from __future__ import annotations

import contextlib

from pydantic import ValidationError

from tuneloop.agents.steering import Known, understand
from tuneloop.core.approval import Decision
from tuneloop.core.directive import (
    MEANING,
    Directive,
    Line,
    Meaning,
    Pause,
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
from tuneloop.graph.context import Context
from tuneloop.graph.deciding import answered as answered_question
from tuneloop.graph.telling import acknowledged, answered, unclear
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.inbox import waiting


def obey(ctx: Context) -> None:
    """Take every message. Raises Paused when one asks for it."""
    pause = False
    for file in waiting(ctx.run.inbox):
        message = read_json(file)
        pause = pause or message.get("do") == "pause"
        if message.get("do") == "say":
            pause = hear(ctx, file.stem, str(message.get("text", "")), meant(message))[1] or pause
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
    names = tuple(ctx.bench.setup.datasets) if ctx.run.setup.is_file() else ctx.bench.spec.datasets
    asked = open_question(ctx.run) is not None
    return Known(tuple(read_directives(ctx.run.directives)), names, ctx.state.experiment, asked=asked)


def take(ctx: Context, message: str, text: str, meaning: Meaning) -> str:
    """The effect of one meaning, and the answer."""
    match meaning:
        case Question():
            return answered(ctx, meaning)
        case Revoke():
            return revoke(ctx, meaning)
        case Reply():
            return decide(ctx, meaning)
        case Unclear():
            return unclear(meaning)
        case _:
            return give(ctx, message, text, meaning)


def give(ctx: Context, message: str, text: str, wish: Wish) -> str:
    """Write a directive down, once for each place of each message."""
    given = read_directives(ctx.run.directives)
    found = next((d for d in given if d.message == message), None)
    if found is None:
        state = "pending" if dangerous(wish) else "done" if isinstance(wish, Pause) else "open"
        found = Directive(id=str(len(given) + 1), message=message, said=text, wish=wish, state=state)
        write_down(ctx.run.directives, found)
    return acknowledged(found)


def revoke(ctx: Context, meaning: Revoke) -> str:
    """Take directives back."""
    given = [d for d in read_directives(ctx.run.directives) if d.state in ("open", "pending")]
    meant = [d for d in given if d.id in meaning.ids] if meaning.ids else given[-1:]
    for directive in meant:
        write_down(ctx.run.directives, directive.model_copy(update={"state": "revoked"}))
    if not meant:
        return "There is no such directive. /directives lists them."
    return "Taken back: " + "; ".join(f"{d.id} ({d.said})" for d in meant)


def decide(ctx: Context, meaning: Reply) -> str:
    """Yes or no to what is pending."""
    pending = next((d for d in reversed(read_directives(ctx.run.directives)) if d.state == "pending"), None)
    if pending is None:
        return approve(ctx, meaning)
    state = "open" if meaning.yes else "revoked"
    write_down(ctx.run.directives, decided := pending.model_copy(update={"state": state}))
    return acknowledged(decided) if meaning.yes else f"Left alone: {pending.said}"


def approve(ctx: Context, meaning: Reply) -> str:
    """Yes or no to the plan or the launch that waits."""
    asked = open_question(ctx.run)
    if asked is None:
        return "Nothing waits for a yes or a no."
    answer = Decision(decision="yes" if meaning.yes else "no", reason=meaning.reason)
    answered_question(ctx, asked, answer)
    told = "goes on" if meaning.yes else "is turned down"
    return f"The {asked.at} of experiment {asked.experiment} {told}."
