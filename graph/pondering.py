"""Messages that rules could not read: a chat model is asked beside everything else, and its guesses do no more than a guess may."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tuneloop.agents.listener import Understood
from tuneloop.core.directive import Approve, Extend, Finish, Meaning, Pause, Question, Reply, Revoke, Unclear, dangerous
from tuneloop.core.directive_log import read_conversation, read_directives
from tuneloop.core.directive_words import described
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
from tuneloop.graph.weighing import replaced
from tuneloop.tools.runs.approvals import open_question
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
                think(ctx, lambda: put(ctx.run.inbox, do="pause"))
                over = False
        finally:
            with TURN:
                over = over or not waiting(ctx.run.heard)
                if over:
                    del _thinking[place]


def think(ctx: Context, pause: Callable[[], object]) -> None:
    """Answer all that was heard; `pause` is called when somebody asks for one, before his message is over.

    Raises SetupError when another process took the run up.
    """
    while files := waiting(ctx.run.heard):
        message = read_json(files[0])
        heard = conclude(ctx, str(message.get("id", files[0].stem)), str(message.get("text", "")))
        if heard.pause:
            pause()
        files[0].unlink(missing_ok=True)


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
            given = read_directives(ctx.run.directives)
            return Heard(
                before.text, any(isinstance(d.wish, Pause) and d.message.startswith(f"{message}#m") for d in given)
            )
        now = known(ctx)
        means = next((line.means for line in said if line.id == message), ())
        left = [meaning.text for meaning in means if isinstance(meaning, Unclear)]
        head = [line.text.rpartition("\n")[0] for line in said if line.heard == message]
        try:
            found = consult(ctx, message, text, left, now.sources)
        except (SetupError, OSError):
            raise  # somebody else took up the run, or the disk is full: thought about again in the next sitting
        except Exception as e:  # noqa: BLE001 - a message that is never closed would be asked about for ever
            said_why = str(e) if isinstance(e, RecipeError) else type(e).__name__
            found, why = Understood(), f" {ctx.settings.chat_model} was asked and gave no answer: {said_why}"
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
        case Question() | Unclear():
            return take(ctx, message, text, meaning)
    given = read_directives(ctx.run.directives)
    sure = not (isinstance(meaning, Extend | Finish | Approve) or replaced(meaning, given))
    if not sure or dangerous(meaning):
        others = [d for d in given if d.state == "pending" and d.message != message]
        if others or open_question(ctx.run):
            first = f"{others[-1].id}: {others[-1].said}" if others else "a plan or a launch"
            return (
                f"{described(meaning)}: something else waits for your yes or no ({first}). Say this again after that."
            )
    return give(ctx, message, text, meaning, sure=sure)
