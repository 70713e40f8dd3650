"""What people say to a run: taken from the inbox, understood by rules, acknowledged, answered; each message once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import ValidationError

from tuneloop.agents.steering import Known, understand
from tuneloop.core.directive import (
    MEANING,
    Line,
    Meaning,
    Pause,
    Reply,
    Unclear,
)
from tuneloop.core.directive_log import read_conversation, read_directives, write_down
from tuneloop.core.errors import Paused
from tuneloop.core.events import Told
from tuneloop.core.files import read_json
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.obeying import catalog, written
from tuneloop.graph.taking import NOTHING_WAITS, take
from tuneloop.tools.data_view import sources_of
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.params.spoken import ADDED, SWITCHES, parameter_names, value_names
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.inbox import waiting
from tuneloop.tools.runs.journal import load_journal

# One thread of a process at a time hears, or says what a model understood: numbers of directives are given in order.
TURN = threading.RLock()


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
        switches=SWITCHES,
        added=ADDED,
        now=written(ctx.run, best.number) if best else {},
        experiments_left=None if limit is None else limit - len(journal.experiments),
        seconds_left=ctx.seconds_left(),
        limits=limits(ctx.run, ctx.bench.spec),
        experiments_limit=limit,
        asked=open_question(ctx.run) is not None,
    )
