"""steer: every entry into the graph; creates the run when it has no folder yet, handles messages, goes to where the run stands."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END

from tuneloop.core.commands import NotACommandError, parse
from tuneloop.core.directive import Line, NewRun
from tuneloop.core.directive_log import append_row
from tuneloop.core.errors import InvalidRequestError, PausedError
from tuneloop.core.events import RunStarted
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context, live_stream
from tuneloop.graph.lifecycle.create_run import create_run_folder
from tuneloop.graph.lifecycle.lock import hold_lock, serialize_nodes
from tuneloop.graph.lifecycle.rebuild import rebuild
from tuneloop.graph.state import State
from tuneloop.graph.steering.llm_listener import converse
from tuneloop.graph.steering.message_handler import process_inbox
from tuneloop.tools.budget.spending import seconds_worked
from tuneloop.tools.runs.signature import check_signed
from tuneloop.tools.runs.spec import build_spec, spec_from_options


def steer(state: State, config: RunnableConfig, settings: Settings) -> dict[str, Any]:
    """Find or open the run's folder. Raises InvalidRequestError when the state names neither a run nor a spec."""
    run_id = state.run_id
    if not run_id:
        try:
            run_id = open_new_run(state, config, settings).id
        except NoRunYet as e:
            return {"stage": END, "messages": [AIMessage(content=str(e))]}
        state = state.model_copy(update={"stage": "prepare"})
    ctx = Context(settings.home.run(run_id), settings, state, live_stream())
    if not ctx.run.spec.is_file():
        raise InvalidRequestError(f"run {run_id!r} is not in {settings.home.runs}")
    check_signed(ctx.run)
    with hold_lock(ctx.run.lock), serialize_nodes(ctx.run.lock):
        if not ctx.run.report_json.is_file():
            emit_run_started(ctx)
        found = rebuild(ctx.run, settings) if state.stage == "prepare" else state
        process_inbox(ctx)
        answers = answer_messages(Context(ctx.run, settings, found), state.messages)
    kept = {name: getattr(found, name) for name in State.model_fields if name != "messages"}
    worked = max(found.spent, seconds_worked(ctx.run))  # nodes that were cut short are in no checkpoint
    return {**kept, "run_id": run_id, "spec": None, "spent": worked, "messages": answers}


class NoRunYet(Exception):  # noqa: N818 - a reply, not a failure
    """What is missing or wrong before there can be a run."""


EXAMPLE = "`run benchmark=wordproblems base_model=tiny loop_n=2`"


def open_new_run(state: State, config: RunnableConfig, settings: Settings) -> RunFolder:
    """The folder of a new run. Raises InvalidRequestError without spec or message, NoRunYet when the message starts none."""
    name, newest = str(config.get("configurable", {}).get("thread_id", "")), state.messages[-1:]
    if state.spec is not None:
        return create_run_folder(build_spec({}, settings, state.spec), settings, name)
    if not newest or not isinstance(newest[0], HumanMessage):
        raise InvalidRequestError(
            f'nothing to do: give {{"spec": {{"benchmark": …, "base_model": …}}}}, a message such as {EXAMPLE}, or a run_id'
        )
    try:
        command = parse(newest[0].text)
        if not isinstance(command, NewRun):
            raise NoRunYet(f"This thread has no run yet; start one, e.g. {EXAMPLE}.")
        run = create_run_folder(spec_from_options(command.options, settings), settings, name)
    except NotACommandError as e:
        raise NoRunYet(f"This thread has no run yet, and this is no command; start one, e.g. {EXAMPLE}.") from e
    except InvalidRequestError as e:
        raise NoRunYet(f"{e}.") from e
    message = newest[0].id or run.id
    append_row(run.conversation, Line(id=message, who="user", text=newest[0].text))
    text = f"{run.id}: started; `help` lists what you can send."
    append_row(run.conversation, Line(id=f"{message}.answer", who="tuneloop", text=text, answers=message))
    return run


def answer_messages(ctx: Context, messages: list[AnyMessage]) -> list[AIMessage]:
    """Answers to messages that have none here yet; one that was answered before gets the same answer.

    Raises PausedError when one of them asks for that.
    """
    known = {message.id for message in messages}
    answers, pause = list[AIMessage](), False
    for message in messages:
        if isinstance(message, HumanMessage) and message.id and f"{message.id}.answer" not in known:
            handled = converse(ctx, message.id, message.text)
            pause = pause or handled.pause
            answers.append(AIMessage(content=handled.text, id=f"{message.id}.answer"))
    if pause:
        raise PausedError("stopped on request")
    return answers


def emit_run_started(ctx: Context) -> None:
    """Say who takes up the run."""
    spec = ctx.run_tools.spec
    ctx.emit(
        RunStarted(
            run=ctx.run.id,
            benchmark=spec.benchmark,
            base_model=spec.base_model,
            planner=ctx.planner.name,
            sandbox=ctx.run_tools.sandbox.kind,
            sandbox_note=ctx.run_tools.sandbox.note,
        )
    )
