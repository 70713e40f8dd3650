"""Messages that rules could not read: a chat model is asked beside everything else, and its guesses do no more than a guess may."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tuneloop.agents.listener import Understood
from tuneloop.core.directive import Approve, Extend, Finish, Meaning, Pause, Reply, Revoke, Unclear
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import RecipeError, SetupError
from tuneloop.core.files import read_json
from tuneloop.core.locks import exclusive
from tuneloop.graph.consulting import consult
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import TURN, Heard, hear, known, reply
from tuneloop.graph.lock import hold
from tuneloop.graph.streaming import silent
from tuneloop.graph.taking import give, take
from tuneloop.graph.telling import unclear
from tuneloop.tools.runs.inbox import put, waiting

_thinking: dict[Path, threading.Thread] = {}


def ponder(ctx: Context) -> None:
    """Have a thread of its own think about what was heard and not understood; nodes go on meanwhile."""
    place = ctx.run.root.resolve()
    with TURN:
        if place not in _thinking and waiting(ctx.run.heard):
            after = replace(ctx, show=silent)  # it may outlive the node
            _thinking[place] = threading.Thread(
                target=_think, args=(after, place), name="tuneloop-listener", daemon=True
            )
            _thinking[place].start()


def _think(ctx: Context, place: Path) -> None:
    over = False
    while not over:
        over = True  # what is not suppressed ends the thread; it is thought about again in the next sitting
        try:
            # Somebody else took up the run, or the disk is full.
            with contextlib.suppress(SetupError, OSError):
                if think(ctx):
                    put(ctx.run.inbox, do="pause")
                over = False
        finally:
            with TURN:
                over = over or not waiting(ctx.run.heard)
                if over:
                    del _thinking[place]


def think(ctx: Context) -> bool:
    """Answer all that was heard; whether somebody asks for a pause. Raises SetupError when another process took the run up."""
    pause = False
    while files := waiting(ctx.run.heard):
        message = read_json(files[0])
        heard = conclude(ctx, str(message.get("id", files[0].stem)), str(message.get("text", "")))
        files[0].unlink(missing_ok=True)
        pause = pause or heard.pause
    return pause


def converse(ctx: Context, message: str, text: str) -> Heard:
    """The answer to a message, whoever has to be asked for it."""
    heard = hear(ctx, message, text)
    if heard.over:
        return heard
    last = conclude(ctx, message, text)
    return last._replace(pause=last.pause or heard.pause)


def conclude(ctx: Context, message: str, text: str) -> Heard:
    """Ask the model, once whoever asks at the same time, and say what becomes of its answer."""
    with exclusive(ctx.run.answers / "lock"):
        said = read_conversation(ctx.run.conversation)
        if (before := next((line for line in said if line.answers == message), None)) is not None:
            return Heard(before.text, pause=False)
        now = known(ctx)
        means = next((line.means for line in said if line.id == message), ())
        left = [meaning.text for meaning in means if isinstance(meaning, Unclear)]
        head = [line.text.rpartition("\n")[0] for line in said if line.heard == message]
        try:
            found = consult(ctx, message, text, left, now.sources)
        except RecipeError as e:
            found, why = Understood(), f" {ctx.settings.chat_model} was asked and gave no answer: {e}"
        else:
            why = ""
        with hold(ctx.run.lock), TURN:
            told = [*filter(None, head), *guessed(ctx, message, text, found)]
            if why or not (found.says or found.meanings):
                told.append(unclear(Unclear(text=" ".join(left)[:500])) + why)
            pause = any(isinstance(meaning, Pause) for meaning in found.meanings)
            return Heard(reply(ctx, message, text, told), pause)


def guessed(ctx: Context, message: str, text: str, found: Understood) -> Iterator[str]:
    """What becomes of each meaning, and the model's own words."""
    for place, meaning in enumerate(found.meanings):
        yield guess(ctx, f"{message}#m{place}", text, meaning)
    if found.says:
        yield f"{ctx.settings.chat_model} says: {found.says}"


def guess(ctx: Context, message: str, text: str, meaning: Meaning) -> str:
    """The effect of what a model takes somebody to mean: nothing that ends, spends, frees or removes without his own yes."""
    match meaning:
        case Reply():
            return "A yes or a no has to come in plain words: yes, or no."
        case Revoke(ids=ids):
            return f"To take something back say: revoke {' '.join(ids)}".rstrip() + "."
        case Extend() | Finish() | Approve(at="none"):
            return give(ctx, message, text, meaning, sure=False)
    return take(ctx, message, text, meaning)
