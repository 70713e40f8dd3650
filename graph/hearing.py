"""What people say to a run: taken from the inbox, understood by rules, answered, turned into directives; each message once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import ValidationError

from tuneloop.agents.steering import Known, understand
from tuneloop.core.approval import Decision
from tuneloop.core.directive import (
    MEANING,
    Delete,
    Directive,
    Extend,
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
from tuneloop.core.directive_words import described
from tuneloop.core.errors import Paused
from tuneloop.core.events import Told
from tuneloop.core.files import read_json
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.deciding import answered as answered_question
from tuneloop.graph.obeying import catalog, written
from tuneloop.graph.removing import removed
from tuneloop.graph.telling import acknowledged, answered, publish, scope, unclear
from tuneloop.graph.weighing import objection, replaced
from tuneloop.tools.data_view import sources_of
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.params.spoken import parameter_names, value_names
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.inbox import waiting
from tuneloop.tools.runs.journal import load_journal

# One thread of a process at a time hears, or says what a model understood: numbers of directives are given in order.
TURN = threading.RLock()


NOTHING_WAITS = "Nothing waits for a yes or a no."


class Heard(NamedTuple):
    """`text`: what was answered; `over` False: it is an acknowledgement, a chat model is asked for the rest."""

    text: str
    pause: bool
    over: bool = True


def obey(ctx: Context) -> None:
    """Take every message. Raises Paused when one asks for it."""
    pause = False
    for file in waiting(ctx.run.inbox):
        message = read_json(file)
        pause = pause or message.get("do") == "pause"
        if message.get("do") == "say":
            heard = hear(ctx, str(message.get("id", file.stem)), str(message.get("text", "")), meant(message))
            pause = pause or heard.pause
            if not heard.over:
                ctx.run.heard.mkdir(exist_ok=True)
                file.replace(ctx.run.heard / file.name)
                continue
        file.unlink()
    if pause:
        raise Paused("stopped on request")


def meant(message: dict[str, str]) -> tuple[Meaning, ...]:
    """What a message says it means, as commands do; () when its words are to be understood."""
    with contextlib.suppress(KeyError, ValidationError):
        return (MEANING.validate_json(message["meaning"]),)
    return ()


def hear(ctx: Context, message: str, text: str, meant: tuple[Meaning, ...] = ()) -> Heard:
    """Answer one message, or acknowledge it. One that was answered before gets the same answer and no effect."""
    with TURN:
        said = read_conversation(ctx.run.conversation)
        if (answer := next((line for line in said if line.answers == message), None)) is not None:
            return Heard(answer.text, pause=False)
        if (heard := next((line for line in said if line.heard == message), None)) is not None:
            return Heard(heard.text, pause=False, over=False)
        now, meanings = known(ctx), next((line.means for line in said if line.id == message), ())
        if not meanings:  # else its answer was cut off by a kill
            meanings = meant or understand(text, now)
            write_down(ctx.run.conversation, Line(id=message, who="user", text=text, means=meanings))
        if not meant and idle(text, now) and isinstance(meanings[0], Unclear):
            return Heard(reply(ctx, message, text, [NOTHING_WAITS]), pause=False)
        left = [m for m in meanings if isinstance(m, Unclear)] if ctx.settings.chat_model and not meant else []
        told = [take(ctx, f"{message}#{place}", text, m) for place, m in enumerate(meanings) if m not in left]
        pause = any(isinstance(meaning, Pause) for meaning in meanings)
        if left:
            return Heard(acknowledge(ctx, message, told), pause, over=False)
        return Heard(reply(ctx, message, text, told), pause)


def idle(text: str, now: Known) -> bool:
    """Whether it is a yes or a no to nothing: no model has to be asked what that means."""
    if now.pending or now.asked:
        return False
    return all(isinstance(meaning, Reply) for meaning in understand(text, replace(now, asked=True)))


def acknowledge(ctx: Context, message: str, told: Sequence[str]) -> str:
    """Say what is done already, and that a model is asked for the rest."""
    line = "\n".join((*told, f"Heard; {ctx.settings.chat_model} is asked what {'the rest' if told else 'it'} means."))
    write_down(ctx.run.conversation, Line(id=f"{message}.heard", who="tuneloop", text=line, heard=message))
    return line


def reply(ctx: Context, message: str, text: str, told: Sequence[str]) -> str:
    """The answer to a message, written last."""
    line = "\n".join(told)
    write_down(ctx.run.conversation, Line(id=f"{message}.answer", who="tuneloop", text=line, answers=message))
    ctx.emit(Told(experiment=ctx.state.experiment, said=text[:500], answer=line[:2000]))
    return line


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
        limits=limits(ctx.run, ctx.bench.spec),
        experiments_limit=limit,
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
