"""Turn a node into a step of the graph: lock, events, time, and what becomes of a recipe's failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableLambda

from tuneloop.core.bridge import in_thread
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.events import NodeFinished, NodeStarted, Problem
from tuneloop.core.settings import load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.ear import listening
from tuneloop.graph.lock import hold, one_node
from tuneloop.graph.repair import give_up
from tuneloop.graph.state import State
from tuneloop.graph.streaming import live
from tuneloop.sandboxes.jobs import no_room

Update = dict[str, Any]
Node = Callable[[Context], Update]
Failed = Callable[[Context, str, RecipeError], Update]


def step(name: str, node: Node, failed: Failed = give_up) -> RunnableLambda[State, Update]:
    """The node with a synchronous and an asynchronous face; `failed` decides where a recipe's failure leads."""

    def face(state: State) -> Update:
        settings = load_settings()
        ctx = Context(settings.home.run(state.run_id), settings, state, live())
        with hold(ctx.run.lock), one_node(ctx.run.lock), listening(ctx):
            return _timed(ctx, name, node, failed)

    return RunnableLambda(face, afunc=in_thread(face), name=name)


def _timed(ctx: Context, name: str, node: Node, failed: Failed) -> Update:
    began, busy = time.monotonic(), time.process_time()
    ctx.emit(NodeStarted(experiment=ctx.state.experiment, node=name))
    try:
        update = node(ctx)
    except RecipeError as e:
        if no_room(str(e)):
            raise WorldError(f"{ctx.run.root}: the disk was full during {name}; free some space") from e
        ctx.emit(
            Problem(experiment=ctx.state.experiment, node=name, culprit=e.culprit or "unknown", text=str(e)[:2000])
        )
        update = failed(ctx, name, e)
    seconds, cpu = time.monotonic() - began, time.process_time() - busy
    number = update.get("experiment", ctx.state.experiment)
    then = f"then {update['stage']}"
    ctx.emit(NodeFinished(experiment=number, node=name, seconds=round(seconds, 3), cpu=round(cpu, 3), detail=then))
    return {**update, "spent": ctx.state.spent + seconds}
