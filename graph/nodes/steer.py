"""steer: every entry into the graph; opens the run when it has no folder yet, hears what is said, goes to where it stands."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import Paused, SetupError
from tuneloop.core.events import RunStarted
from tuneloop.core.settings import load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import hear, obey
from tuneloop.graph.lock import hold
from tuneloop.graph.opening import open_run
from tuneloop.graph.rebuild import rebuild
from tuneloop.graph.state import State


def steer(state: State, config: RunnableConfig) -> dict[str, Any]:
    """Find or open the run's folder. Raises SetupError when the state names neither a run nor a spec."""
    settings = load_settings()
    run_id = state.run_id
    if not run_id:
        if state.spec is None:
            raise SetupError('nothing to do: give {"spec": {"benchmark": …, "base_model": …}} or the run_id of a run')
        run_id = open_run(state.spec, settings, str(config.get("configurable", {}).get("thread_id", ""))).id
    ctx = Context(settings.home.run(run_id), settings, state)
    if not ctx.run.spec.is_file():
        raise SetupError(f"run {run_id!r} is not in {settings.home.runs}")
    with hold(ctx.run.lock):
        announce(ctx)
        found = rebuild(ctx.run, settings) if state.stage == "prepare" else state
        obey(ctx)
        answers = listen(Context(ctx.run, settings, found), state.messages)
    kept = {name: getattr(found, name) for name in State.model_fields if name != "messages"}
    return {**kept, "run_id": run_id, "spec": None, "messages": answers}


def listen(ctx: Context, messages: list[AnyMessage]) -> list[AIMessage]:
    """Answers to what was said and not heard yet. Raises Paused when the last of it asks for that."""
    heard = {line.id for line in read_conversation(ctx.run.conversation)}
    answers, pause = list[AIMessage](), False
    for message in messages:
        if isinstance(message, HumanMessage) and message.id and message.id not in heard:
            text, pause = hear(ctx, message.id, message.text)
            answers.append(AIMessage(content=text, id=f"{message.id}.answer"))
    if pause:
        raise Paused("stopped on request")
    return answers


def announce(ctx: Context) -> None:
    """Say who takes up the run."""
    spec = ctx.bench.spec
    ctx.emit(
        RunStarted(
            run=ctx.run.id,
            benchmark=spec.benchmark,
            base_model=spec.base_model,
            planner=ctx.planner.name,
            sandbox=ctx.bench.sandbox.kind,
        )
    )
