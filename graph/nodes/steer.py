"""steer: every entry into the graph; opens the run when it has no folder yet, hears what is said, goes to where it stands."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END

from tuneloop.core.directive import Line
from tuneloop.core.directive_log import write_down
from tuneloop.core.errors import Paused, SetupError
from tuneloop.core.events import RunStarted
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.first_words import first_words, summary
from tuneloop.graph.hearing import obey
from tuneloop.graph.lock import hold, one_node
from tuneloop.graph.opening import open_run
from tuneloop.graph.pondering import converse
from tuneloop.graph.rebuild import rebuild
from tuneloop.graph.state import State
from tuneloop.graph.streaming import live
from tuneloop.tools.ledger.spent import work


def steer(state: State, config: RunnableConfig) -> dict[str, Any]:
    """Find or open the run's folder. Raises SetupError when the state names neither a run nor a spec."""
    settings = load_settings()
    run_id = state.run_id
    if not run_id:
        try:
            run_id = opened(state, config, settings).id
        except Unsaid as e:
            return {"stage": END, "messages": [AIMessage(content=str(e))]}
        state = state.model_copy(update={"stage": "prepare"})
    ctx = Context(settings.home.run(run_id), settings, state, live())
    if not ctx.run.spec.is_file():
        raise SetupError(f"run {run_id!r} is not in {settings.home.runs}")
    with hold(ctx.run.lock), one_node(ctx.run.lock):
        announce(ctx)
        found = rebuild(ctx.run, settings) if state.stage == "prepare" else state
        obey(ctx)
        answers = listen(Context(ctx.run, settings, found), state.messages)
    kept = {name: getattr(found, name) for name in State.model_fields if name != "messages"}
    worked = max(found.spent, work(ctx.run))  # nodes that were cut short are in no checkpoint
    return {**kept, "run_id": run_id, "spec": None, "spent": worked, "messages": answers}


class Unsaid(Exception):  # noqa: N818 - a question back, not a failure
    """What is still to be said before there can be a run."""


def opened(state: State, config: RunnableConfig, settings: Settings) -> RunFolder:
    """The folder of a new run. Raises SetupError without spec or words, Unsaid when the words do not say enough."""
    name, said = str(config.get("configurable", {}).get("thread_id", "")), state.messages[-1:]
    if state.spec is not None:
        return open_run(state.spec, settings, name)
    if not said or not isinstance(said[0], HumanMessage):
        raise SetupError('nothing to do: give {"spec": {"benchmark": …, "base_model": …}} or the run_id of a run')
    spec = first_words(said[0].text)
    if isinstance(spec, str):  # an answer to a question back: with what was said before it may say enough
        words = [m.text for m in state.messages if isinstance(m, HumanMessage) and "{" not in m.text]
        together = first_words(" ".join(words))
        spec = spec if isinstance(together, str) else together
    if isinstance(spec, str):
        raise Unsaid(spec)
    try:
        run = open_run(spec, settings, name)
    except SetupError as e:
        raise Unsaid(f"{e}.") from e
    message = said[0].id or run.id
    write_down(run.conversation, Line(id=message, who="user", text=said[0].text))
    write_down(
        run.conversation, Line(id=f"{message}.answer", who="tuneloop", text=f"{summary(spec)}.", answers=message)
    )
    return run


def listen(ctx: Context, messages: list[AnyMessage]) -> list[AIMessage]:
    """Answers to what was said and has none here yet; what was heard before is answered as it was then.

    Raises Paused when the last of it asks for that.
    """
    known = {message.id for message in messages}
    answers, pause = list[AIMessage](), False
    for message in messages:
        if isinstance(message, HumanMessage) and message.id and f"{message.id}.answer" not in known:
            heard = converse(ctx, message.id, message.text)
            pause = heard.pause
            answers.append(AIMessage(content=heard.text, id=f"{message.id}.answer"))
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
