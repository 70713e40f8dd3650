"""Messages that are no command: a chat model turns them into commands, in the background; it decides nothing that lasts.

What ends the run, moves a limit, changes approvals or deletes is only offered, and waits for the user's own yes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel

from tuneloop.agents.agent import Agent
from tuneloop.agents.chat.planner_context import PlannerContext
from tuneloop.agents.listener import LISTENER, Interpretation
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.brief import Brief, BudgetLeft, TaskCard
from tuneloop.core.commands import parse, table
from tuneloop.core.directive import (
    Approve,
    Delete,
    Edit,
    Extend,
    Finish,
    Lasting,
    NewRun,
    Pause,
    Question,
    Reply,
    Revoke,
)
from tuneloop.core.directive_log import read_conversation, read_directives
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.files import digest, read_model, read_text, write_atomic, write_json
from tuneloop.core.locks import exclusive
from tuneloop.core.prompt_escaping import escape_role_markers, fence
from tuneloop.core.transcript import transcript_path
from tuneloop.graph.agent_calls.planner_context import open_ledger
from tuneloop.graph.context import Context, ignore_event
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.steering.apply import Outcome, carry_out, join, open_offers
from tuneloop.graph.steering.compliance import config_values
from tuneloop.graph.steering.message_handler import TURN, Handled, handle, not_a_command, reply
from tuneloop.graph.steering.replies import data, directives, plan, status, why
from tuneloop.graph.steering.validation import canonical, replaced
from tuneloop.prompts import fill
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.messages import put, read_message, waiting

Answer = TypeVar("Answer", bound=BaseModel)
TIMEOUT = 120.0  # seconds until the user is told that no model answers
FACT = 4000  # characters of one fact
NEEDS_YES = Extend | Finish | Approve
_at_work: dict[Path, threading.Thread] = {}


def start_listener(ctx: Context) -> None:
    """Have a thread of its own ask the chat model about waiting messages; nodes go on meanwhile."""
    place = ctx.run.root.resolve()
    with TURN:
        if place not in _at_work and waiting(ctx.run.heard):
            own = replace(ctx, show=ignore_event)  # it may outlive the node
            _at_work[place] = threading.Thread(target=_listen, args=(own, place), name="tuneloop-listener", daemon=True)
            _at_work[place].start()


def _listen(ctx: Context, place: Path) -> None:
    over = False
    while not over:
        over = True  # an exception ends the thread; the message is read again when the run goes on
        try:
            # Another process took up the run, or the disk is full.
            with contextlib.suppress(InvalidRequestError, OSError):
                answer_waiting(ctx, lambda: put(ctx.run.inbox, do="pause", promised="yes"))
                over = False
        finally:
            with TURN:
                over = over or not waiting(ctx.run.heard)
                if over:
                    del _at_work[place]


def answer_waiting(ctx: Context, pause: Callable[[], object]) -> None:
    """Answer all messages that wait for the model; `pause` is called when one asks for it, before it is closed.

    Raises InvalidRequestError when another process took the run up.
    """
    while files := waiting(ctx.run.heard):
        message = read_message(files[0])
        handled = interpret(ctx, str(message.get("id", files[0].stem)), str(message.get("text", "")))
        if handled.pause:
            pause()
        files[0].unlink(missing_ok=True)


def converse(ctx: Context, message: str, text: str) -> Handled:
    """The answer to a message, with the chat model's part."""
    handled = handle(ctx, message, text)
    return handled if handled.complete else interpret(ctx, message, text)


def interpret(ctx: Context, message: str, text: str) -> Handled:
    """Ask the model, once for each message, and carry out or offer its commands."""
    with exclusive(ctx.run.answers / "lock"):
        lines = read_conversation(ctx.run.conversation)
        if (before := next((line for line in lines if line.answers == message), None)) is not None:
            return Handled(before.text, pause=_asks_for_pause(ctx, message))
        try:
            found, why_not = ask(ctx, message, text), ""
        except (InvalidRequestError, OSError):
            raise  # another process took up the run, or the disk is full: read again when the run goes on
        except Exception as e:  # noqa: BLE001 - a message that is never closed would be asked about for ever
            reason = str(e) if isinstance(e, RecipeError) else type(e).__name__
            found, why_not = Interpretation(), f" {ctx.settings.chat_model} gave no answer: {reason}"
        with hold_lock(ctx.run.lock), TURN:
            outcomes = [
                carefully(ctx, message, f"{message}.{place}", text) for place, text in enumerate(found.commands)
            ]
            if found.answer:
                outcomes.append(Outcome(f"{ctx.settings.chat_model} says: {found.answer}"))
            if not outcomes:
                nearest = not_a_command(text, None)
                outcomes = [replace(nearest, text=nearest.text + why_not)]
            outcome = join(outcomes)
            return Handled(reply(ctx, message, text, outcome), outcome.pause)


def _asks_for_pause(ctx: Context, message: str) -> bool:
    """Whether the model's answer to a message, written before a kill, holds a pause."""
    file = answer_file(ctx, message)
    found = read_model(file, Interpretation) if file.is_file() else Interpretation()
    return any(isinstance(parse(text), Pause) for text in found.commands)


def carefully(ctx: Context, message: str, place: str, text: str) -> Outcome:
    """Carry out a command of the model where that is safe; else offer it."""
    command = parse(text)
    match command:
        case Reply():
            return Outcome("A yes or a no must come from you: `yes`, or `no` with a reason.")
        case Revoke() | Edit() | NewRun():
            return Outcome(f"If you mean `{text}`, send it.")
        case Question() | Pause():
            return carry_out(ctx, place, text, command)
    over = (
        replaced(canonical(ctx, command), read_directives(ctx.run.directives)) if isinstance(command, Lasting) else ()
    )
    if not (isinstance(command, NEEDS_YES | Delete) or over):
        return carry_out(ctx, place, text, command)
    if open_offers(ctx, message) or open_question(ctx.run):
        return Outcome(f"`{text}`: another question waits for your yes or no. Send it after that.")
    return Outcome(f"Did you mean `{text}`? Say yes to do it.", offers=(text,))


def answer_file(ctx: Context, message: str) -> Path:
    """Where the model's answer to a message is kept."""
    return Path(f"{ctx.run.answers / LISTENER.name}.{number(message)}.json")


def number(message: str) -> int:
    """A number for the message, as files of answers have one."""
    return int(digest(message)[:8], 16)


def ask(ctx: Context, message: str, text: str) -> Interpretation:
    """What the model makes of a message; asked again, the same. Raises RecipeError when no model answers."""
    file = answer_file(ctx, message)
    prompt = file.with_suffix(".md")
    if file.is_file():
        return read_model(file, Interpretation)
    if not prompt.is_file():  # asked again after a kill, it is the same prompt: nothing is paid twice
        write_atomic(
            prompt,
            fill("listener", commands=table(), facts=fence("text", escape_role_markers(facts(ctx))), message=text),
        )
    calls = transcript_path(ctx.run.answers, LISTENER.name, number(message))
    found = ask_without_tools(ctx, LISTENER, read_text(prompt), calls)
    write_json(file, found.model_dump(mode="json"))
    return found


def ask_without_tools(ctx: Context, agent: Agent[Answer], prompt: str, calls: Path) -> Answer:
    """The chat model's answer for an agent that needs no setup of the run. Raises RecipeError when no model answers."""
    return run_sync(_ask(ctx, agent, prompt, calls))


async def _ask(ctx: Context, agent: Agent[Answer], prompt: str, calls: Path) -> Answer:
    from tuneloop.agents.chat.planner import ChatPlanner  # langchain is slow to import

    context = PlannerContext(
        ctx.settings, lambda _: calls, ctx.run.models, ctx.emit, open_ledger(ctx.run, ctx.settings, who=agent.name)
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            return await ChatPlanner(context).answer(agent.name, prompt, brief(ctx), None, agent.answer)
    except TimeoutError as e:
        raise RecipeError(f"no answer within {TIMEOUT:g} s", culprit="planner") from e
    except InfrastructureError as e:
        raise RecipeError(str(e), culprit="planner") from e
    except RecipeError as e:
        raise RecipeError(str(e.__context__ or e), culprit="planner") from e


def brief(ctx: Context) -> Brief:
    """As much of a brief as there is, also before the run has its setup."""
    spec = ctx.run_tools.spec
    task = TaskCard(
        benchmark=spec.benchmark, domain="", description="", answer="", prompt="", metric="", direction="max",
        max_new_tokens=0, base_model=spec.base_model, datasets=spec.datasets, row_limit=0, seed=spec.seed, device="",
    )  # fmt: skip
    return Brief(
        task=task, experiment=ctx.state.experiment, budget=BudgetLeft(experiments_left=None, seconds_left=None)
    )


def facts(ctx: Context) -> str:
    """What the run's files tell."""
    best = load_journal(ctx.run).best
    values = config_values(ctx.run, best.number) if best else {}
    config = yaml.safe_dump(values, sort_keys=True) if values else "none yet"
    known = [status(ctx), why(ctx, None), directives(ctx), plan(ctx), data(ctx)]
    return "\n\n".join(part[:FACT] for part in (*known, f"train.yaml of the best experiment:\n{config}"))
