"""Start and drive runs: the face that the command line and scripts use."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.graph.state import CompiledStateGraph

from tuneloop.core.errors import (
    ApprovalNeededError,
    InfrastructureError,
    InvalidRequestError,
    PausedError,
)
from tuneloop.core.events import RecipeFailure, RunPaused
from tuneloop.core.files import check_guards
from tuneloop.core.layout import RunFolder
from tuneloop.core.lease import hold_lease
from tuneloop.core.os_errors import naming_os_errors
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.build import EXPERIMENT, build_graph
from tuneloop.graph.checkpoints.store import RunCheckpoints, open_checkpoints
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.create_run import create_run_folder
from tuneloop.graph.lifecycle.integrity import check_unchanged
from tuneloop.graph.lifecycle.lock import hold_exclusively
from tuneloop.graph.lifecycle.mirrored import mirrored
from tuneloop.graph.lifecycle.rebuild import is_behind
from tuneloop.graph.lifecycle.side_by_side import SideBySide
from tuneloop.graph.state import VERSION, State, stored_state
from tuneloop.graph.telemetry.team import update_team
from tuneloop.tools.jobs.gpu_share import check_gpus, check_training_devices
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import creating_version, newer_version_error, older_version_error, read_spec
from tuneloop.tools.runs.messages import drop_pauses, waiting
from tuneloop.tools.runs.request import check_run_name
from tuneloop.tools.team.index import check_team_url

# Nodes between two times that old checkpoints are dropped: the file stays below half a megabyte at any length of run.
SHRINK_EVERY = 40

__all__ = ["RunOutcome", "create_run", "drive", "load_journal"]


@dataclass(frozen=True)
class RunOutcome:
    """How a session ended; `asks`: a person is to say whether it may go on; `question`: what is asked about limits."""

    state: Literal["finished", "paused"]
    reason: str = ""
    asks: bool = False
    question: str = ""


def create_run(spec: RunSpec, settings: Settings, run_id: str | None = None) -> RunFolder:
    """A new run's folder. Raises InvalidRequestError in one line before anything costs."""
    check_run_name(run_id or "")
    if run_id and settings.home.run(run_id).spec.exists():
        raise InvalidRequestError(
            f"run {run_id!r} exists; `tuneloop resume {run_id}` goes on with it, or choose another --run-id"
        )
    with naming_os_errors(settings.home.root), hold_lease(settings.home.root):
        check_team_url(settings.team_url)
        run = create_run_folder(spec, settings, run_id or "")
        update_team(run, settings)
        return run


def drive(run: RunFolder, settings: Settings, *, step_n: int | None = None, interactive: bool = False) -> RunOutcome:
    """Run or resume the graph until it is finished or paused; `step_n` pauses after that many nodes.

    `interactive`: somebody is there who can be asked for more when a limit is reached; else the run finishes then.

    Raises:
        InvalidRequestError: another process or thread works on the run, what it stands on has changed, or GPUs are too few.
        InfrastructureError: disk, engine or provider failed. Both leave a run that can be resumed.
    """
    check_unchanged(run, settings)
    spec = read_spec(run)
    check_gpus(spec)  # there may be fewer than when the run began
    check_training_devices(spec, settings)
    check_team_url(settings.team_url)
    stale = waiting(run.inbox)
    with naming_os_errors(run.root), hold_lease(settings.home.root), hold_exclusively(run.lock):
        drop_pauses(stale)
        try:
            with mirrored(run, settings):
                outcome = _drive(run, settings, step_n, interactive)
        finally:
            check_guards(run.inbox)
            pause = drop_pauses(waiting(run.inbox))  # it stands still: a later `resume` is not stopped by them
    # A pause arrived as the question was raised: no one is asked, and the run stays paused.
    return replace(outcome, asks=False, question="") if pause else outcome


def _drive(run: RunFolder, settings: Settings, step_n: int | None, interactive: bool) -> RunOutcome:
    with open_checkpoints(run, settings.checkpoint_url) as store:
        ctx = Context(run, settings, State(version=VERSION, run_id=run.id))
        given = entry_state(ctx, store)
        if given.stage == END:
            return RunOutcome("finished")
        try:
            with ctx.run_tools.warm_engines():
                _stream(ctx, store, given, step_n, interactive)
        except (PausedError, InfrastructureError, OSError, KeyboardInterrupt) as e:
            with contextlib.suppress(OSError):  # the disk may be full
                ctx.emit(RunPaused(reason=str(e) or "interrupted"))
            if isinstance(e, PausedError):
                asks = isinstance(e, ApprovalNeededError)
                return RunOutcome("paused", str(e), asks, e.question if isinstance(e, ApprovalNeededError) else "")
            raise
    return RunOutcome("finished")


def entry_state(ctx: Context, store: RunCheckpoints) -> State:
    """The state to enter the graph with: always at `steer`, whatever langgraph of whatever version stored it.

    What is lost, damaged or behind the files is left to `steer`, which reads them. Raises InvalidRequestError when another version
    stored it.
    """
    values = store.values()
    stored = values.get("version") if values is not None else None
    if isinstance(stored, int) and stored != VERSION:
        raise (newer_version_error if stored > VERSION else older_version_error)(ctx.run, creating_version(ctx.run))
    if values is not None and (state := stored_state(values)):
        over = state.stage == END and ctx.run.report_json.is_file()
        if over or not (state.stage == END or is_behind(state, ctx.run)):
            return state
        store.forget()
    if store.lost:
        ctx.emit(
            RecipeFailure(node="resume", culprit="environment", text=f"{store.lost}; rebuilt from the run's files")
        )
    return ctx.state


def _stream(ctx: Context, store: RunCheckpoints, given: State, step_n: int | None, interactive: bool) -> None:
    """Step by step to the end; experiments side by side where the run is to have several at once."""
    graph = build_graph(ctx.settings).compile(checkpointer=store.saver, name="tuneloop")
    config: RunnableConfig = {**store.config, "recursion_limit": 1_000_000}
    config["configurable"] = {**config["configurable"], "interactive": interactive}
    store.shrink()
    several = ctx.run_tools.spec.parallel > 1
    done = _walk(graph, store, config, given, step_n, EXPERIMENT if several else [])
    if not (several and graph.get_state(config).next):
        return
    state = stored_state(graph.get_state(config).values) or given
    here = Context(ctx.run, ctx.settings, state, interactive=interactive)
    state = SideBySide(here, store, None if step_n is None else step_n - done).run()
    over = state.model_dump(include={"stage", "experiment", "attempt", "failure", "spent"})
    graph.update_state(config, over, as_node="critique")
    _walk(graph, store, config, None, None, [])


def _walk(
    graph: CompiledStateGraph[State],
    store: RunCheckpoints,
    config: RunnableConfig,
    begin: State | None,
    step_n: int | None,
    stops: Sequence[str],
) -> int:
    """Until the end or before one of `stops`; how many nodes. Raises PausedError after `step_n`, `steer` not counted."""
    done = 0
    for update in graph.stream(
        begin, config, stream_mode="updates", durability="sync", interrupt_before=[*stops] or None
    ):
        if "__interrupt__" in update:
            if not update["__interrupt__"]:  # one of `stops`
                return done
            asked = update["__interrupt__"][0].value
            raise ApprovalNeededError("a person is asked whether it may go on", str(asked.get("question", "")))
        done += "steer" not in update
        if "critique" in update:
            store.publish()
        if done and done % SHRINK_EVERY == 0:
            store.shrink()
        if step_n is not None and done >= step_n and graph.get_state(config).next:
            raise PausedError(f"{step_n} nodes done")
    return done
