"""Take messages from the run's inbox, parse, execute and answer them, each once."""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from tuneloop.core.commands import (
    BY_NAME,
    COMMANDS,
    CommandSpec,
    NotACommandError,
    find_command,
    named_command,
    parse,
)
from tuneloop.core.directive import Command, Line, Reply
from tuneloop.core.directive_log import append_row, read_conversation
from tuneloop.core.errors import InvalidRequestError, PausedError
from tuneloop.core.events import MessageAnswered
from tuneloop.graph.context import Context
from tuneloop.graph.steering.apply import Outcome, carry_out
from tuneloop.tools.runs.messages import read_message, waiting

# One thread per process handles messages, so that directives are numbered in order.
TURN = threading.RLock()
SIMILAR = 72  # of 100: rapidfuzz's similarity from which a command is suggested


class Handled(NamedTuple):
    """`text`: the answer; `complete` False: an acknowledgement, a chat model still reads the message."""

    text: str
    pause: bool
    complete: bool = True


def process_inbox(ctx: Context) -> None:
    """Handle every message. Raises PausedError when one requests a pause."""
    with TURN:  # nodes of several experiments may work at once
        pause = take_messages(ctx)
    if pause:
        raise PausedError("stopped on request")


def take_messages(ctx: Context) -> bool:
    """Handle every message; whether one requests a pause."""
    pause = False
    for file in waiting(ctx.run.inbox):
        message = read_message(file)
        pause = pause or message.get("do") == "pause"
        if message.get("do") == "say":
            handled = handle(ctx, str(message.get("id", file.stem)), str(message.get("text", "")))
            pause = pause or handled.pause
            if not handled.complete:
                ctx.run.heard.mkdir(exist_ok=True)
                file.replace(ctx.run.heard / file.name)
                continue
        file.unlink()
    return pause


def handle(ctx: Context, message: str, text: str) -> Handled:
    """Answer or acknowledge one message. A message that was answered before gets the same answer and has no effect."""
    with TURN:
        lines = read_conversation(ctx.run.conversation)
        if (answer := next((line for line in lines if line.answers == message), None)) is not None:
            return Handled(answer.text, pause=False)
        if (known := next((line for line in lines if line.acknowledges == message), None)) is not None:
            return Handled(known.text, pause=False, complete=False)
        if all(line.id != message for line in lines):  # else its answer was cut off by a kill
            append_row(ctx.run.conversation, Line(id=message, who="user", text=text))
        command, error = read(text)
        if command is not None:
            outcome = attempt(ctx, message, text, command)
        elif ctx.settings.chat_model and not text.lstrip().startswith("/"):
            return Handled(acknowledge(ctx, message), pause=False, complete=False)
        else:
            outcome = not_a_command(text, error)
        return Handled(reply(ctx, message, text, outcome), outcome.pause)


def attempt(ctx: Context, message: str, text: str, command: Command) -> Outcome:
    """Carry a command out. One that cannot be is refused: left in the inbox it would stop every session."""
    try:
        return carry_out(ctx, message, text, command)
    except InvalidRequestError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as e:
        logging.getLogger(__name__).exception("message %s: %s", message, text[:200])
        return Outcome(f"{text.strip()[:80]!r} cannot be carried out: {type(e).__name__}: {e}", refused=True)


def read(text: str) -> tuple[Command | None, InvalidRequestError | None]:
    """Parse a text: the command, or the error."""
    try:
        return parse(text), None
    except InvalidRequestError as e:
        return None, e


def not_a_command(text: str, error: InvalidRequestError | None) -> Outcome:
    """Change nothing, and suggest the nearest command; for one with wrong arguments no other one."""
    whole, spec = suggest(text)
    named = named_command(text)
    is_slip = named is None or (spec is named and not text.lstrip().startswith("/"))
    if whole and is_slip and not isinstance(find_command(whole), Reply):  # a yes that confirms a yes would be ambiguous
        said = f"This is no command. Did you mean `{whole}`? Say yes to do it."
        return Outcome(said, refused=True, offers=(whole,))
    hint = f" The nearest is `{spec.usage}`, e.g. `{spec.example}`." if spec else " `help` lists the commands."
    if error is not None and not isinstance(error, NotACommandError):
        return Outcome(f"{error}. Nothing was changed.", refused=True)
    return Outcome(f"This is no command; nothing was changed.{hint}", refused=True)


def suggest(text: str) -> tuple[str, CommandSpec | None]:
    """The nearest command: its text if it is complete, else "", and its specification; None without a similar one."""
    from rapidfuzz import fuzz, process, utils  # takes 40 ms, and is rarely needed

    word, _, rest = text.strip().removeprefix("/").partition(" ")
    if slip := process.extractOne(word.lower(), list(BY_NAME), scorer=fuzz.ratio, score_cutoff=SIMILAR):
        for whole in (f"{slip[0]} {rest}".strip(), slip[0]):
            if find_command(whole):
                return whole, BY_NAME[slip[0]]
    phrases = {phrase: spec for spec in COMMANDS for phrase in spec.phrases}
    found = process.extractOne(
        text, list(phrases), scorer=fuzz.token_set_ratio, processor=utils.default_process, score_cutoff=SIMILAR
    )
    if found is None:
        return "", BY_NAME[slip[0]] if slip else None
    spec = phrases[found[0]]
    return (spec.name if find_command(spec.name) else ""), spec


def acknowledge(ctx: Context, message: str) -> str:
    """Acknowledge a message that is passed to the chat model."""
    text = f"{ctx.run.id}: this is no command; {ctx.settings.chat_model} is asked what it means."
    append_row(ctx.run.conversation, Line(id=f"{message}.read", who="tuneloop", text=text, acknowledges=message))
    return text


def reply(ctx: Context, message: str, text: str, outcome: Outcome) -> str:
    """The answer to a message, written last."""
    said = f"{ctx.run.id}: {outcome.text}"
    line = Line(
        id=f"{message}.answer",
        who="tuneloop",
        text=said,
        answers=message,
        offers=outcome.offers,
        refused=outcome.refused,
    )
    append_row(ctx.run.conversation, line)
    ctx.emit(MessageAnswered(experiment=ctx.state.experiment, said=text[:500], answer=said[:2000]))
    return said
