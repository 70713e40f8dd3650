"""Turn a node into a step of the graph: lock, events, time, and what becomes of a recipe's failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda

from tuneloop.core.bridge import in_thread
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.events import NodeCut, NodeFinished, NodeStarted, Problem
from tuneloop.core.settings import load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.limiting import extended, refused, warn
from tuneloop.graph.lock import hold, one_node
from tuneloop.graph.repair import give_up
from tuneloop.graph.state import State
from tuneloop.graph.steering.inbox_listener import listening
from tuneloop.graph.streaming import live
from tuneloop.sandboxes.jobs import no_room

Update = dict[str, Any]
Node = Callable[[Context], Update]
Failed = Callable[[Context, str, RecipeError], Update]
HOLDING = frozenset({"rehearse", "train", "evaluate"})  # their jobs hold the GPUs
# Where agents are asked, but for nodes that ask a person themselves: answers to two questions of a node could be mixed up.
GATED = frozenset({"research", "engineer_data", "write_config", "validate", "rehearse"})
ASKING = GATED | {"prepare", "critique"}  # the last two ask before another experiment begins


def step(name: str, node: Node, failed: Failed = give_up) -> RunnableLambda[State, Update]:
    """The node with a synchronous and an asynchronous face; `failed` decides where a recipe's failure leads."""

    def face(state: State, config: RunnableConfig) -> Update:
        settings = load_settings()
        ctx = Context(settings.home.run(state.run_id), settings, state, live(), attended(config) and name in ASKING)
        with hold(ctx.run.lock), one_node(ctx.run.lock), listening(ctx):
            warn(ctx)
            if name in GATED:
                extended(ctx, partial(refused, ctx))
            update = _timed(ctx.holding() if name in HOLDING else ctx, name, node, failed)
            warn(ctx, update["spent"] - state.spent)
            return update

    return RunnableLambda(face, afunc=in_thread(face), name=name)


def attended(config: RunnableConfig) -> bool:
    """Whether somebody is there and can be asked: whoever drives the graph says so, and who looks on in Studio is there."""
    told = config.get("configurable", {})
    return bool(told.get("attended", "graph_id" in told))


def _timed(ctx: Context, name: str, node: Node, failed: Failed) -> Update:
    began, busy = time.monotonic(), time.process_time()
    ctx.emit(NodeStarted(experiment=ctx.state.experiment, node=name))
    with _cut_is_told(ctx, name):
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


@contextmanager
def _cut_is_told(ctx: Context, name: str) -> Iterator[None]:
    """Whoever leaves a node before its end has worked until then: it counts when the run goes on."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        number = ctx.state.experiment + (name == "research")  # it opens the next one
        with suppress(OSError):  # a full disk is told as what it is
            ctx.emit(NodeCut(experiment=number, node=name, seconds=round(time.monotonic() - began, 3)))
        raise
