"""Turn a node into a step of the graph: lock, events, time, and what becomes of a recipe's failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda

from tuneloop.core.async_bridge import in_thread
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.events import NodeFinished, NodeInterrupted, NodeStarted, RecipeFailure
from tuneloop.core.settings import Settings
from tuneloop.graph.budget.gate import ask_for_more, refused_limits, warn_near_limits
from tuneloop.graph.context import Context, live_stream
from tuneloop.graph.lifecycle.lock import hold_lock, serialize_nodes
from tuneloop.graph.outcomes.repair import give_up
from tuneloop.graph.state import State
from tuneloop.graph.steering.inbox_listener import listening
from tuneloop.sandboxes.jobs import is_disk_full

Update = dict[str, Any]
Node = Callable[[Context], Update]
Failed = Callable[[Context, str, RecipeError], Update]
HOLDING = frozenset({"smoke_run", "train", "evaluate"})  # their jobs hold the GPUs
# Nodes that call agents, except those that ask a person: answers to two questions of a node could be mixed up.
GATED = frozenset({"research", "engineer_data", "write_config", "validate", "smoke_run"})
ASKING = GATED | {"prepare", "critique"}  # the last two ask before another experiment begins


def step(name: str, node: Node, settings: Settings, failed: Failed = give_up) -> RunnableLambda[State, Update]:
    """The node with a synchronous and an asynchronous face; `failed` decides where a recipe's failure leads."""

    def face(state: State, config: RunnableConfig) -> Update:
        ctx = Context(
            settings.home.run(state.run_id),
            settings,
            state,
            live_stream(),
            is_attended(config) and name in ASKING,
            slot=config.get("configurable", {}).get("slot", 0),
        )
        with hold_lock(ctx.run.lock), serialize_nodes(ctx.run.lock, ctx.slot), listening(ctx):
            warn_near_limits(ctx)
            if name in GATED:
                ask_for_more(ctx, partial(refused_limits, ctx))
            update = _timed(replace(ctx, holds_gpus=name in HOLDING, began=time.monotonic()), name, node, failed)
            warn_near_limits(ctx, update["spent"] - state.spent)
            return update

    return RunnableLambda(face, afunc=in_thread(face), name=name)


def is_attended(config: RunnableConfig) -> bool:
    """Whether a person can be asked: the caller of the graph says so, and a viewer in Studio counts."""
    told = config.get("configurable", {})
    return bool(told.get("interactive", "graph_id" in told))


def _timed(ctx: Context, name: str, node: Node, failed: Failed) -> Update:
    began, busy = time.monotonic(), time.process_time()
    ctx.emit(NodeStarted(experiment=ctx.state.experiment, node=name))
    with _emit_interrupted(ctx, name):
        try:
            update = node(ctx)
        except RecipeError as e:
            if is_disk_full(str(e)):
                raise InfrastructureError(f"{ctx.run.root}: the disk was full during {name}; free some space") from e
            ctx.emit(
                RecipeFailure(
                    experiment=ctx.state.experiment, node=name, culprit=e.culprit or "unknown", text=str(e)[:2000]
                )
            )
            update = failed(ctx, name, e)
    seconds, cpu = time.monotonic() - began, time.process_time() - busy
    number = update.get("experiment", ctx.state.experiment)
    then = f"then {update['stage']}"
    ctx.emit(NodeFinished(experiment=number, node=name, seconds=round(seconds, 3), cpu=round(cpu, 3), detail=then))
    return {**update, "spent": ctx.state.spent + seconds}


@contextmanager
def _emit_interrupted(ctx: Context, name: str) -> Iterator[None]:
    """Record the time of an interrupted node, so that it counts when the run is resumed."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        number = ctx.state.experiment + (name == "research")  # it opens the next one
        with suppress(OSError):  # a full disk is told as what it is
            ctx.emit(NodeInterrupted(experiment=number, node=name, seconds=round(time.monotonic() - began, 3)))
        raise
