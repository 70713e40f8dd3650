"""Start, drive and look at runs: the face that the command line and scripts use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from langchain_core.runnables import RunnableConfig

from tuneloop.core.errors import Paused, SetupError, WorldError
from tuneloop.core.event_log import read_events
from tuneloop.core.events import NodeStarted, RunPaused
from tuneloop.core.experiment import Experiment, Journal
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.graph.build import build_graph
from tuneloop.graph.context import Context
from tuneloop.graph.journal import baseline, load_journal
from tuneloop.graph.lock import hold, is_held
from tuneloop.graph.nodes.steer import announce
from tuneloop.graph.opening import open_run
from tuneloop.graph.persistence import open_checkpointer
from tuneloop.graph.state import State

# A node emits far less between its start and the next one's.
TAIL = 1 << 18

__all__ = ["RunOutcome", "RunStatus", "create_run", "drive", "load_journal", "run_status"]


@dataclass(frozen=True)
class RunOutcome:
    """How a sitting ended."""

    state: Literal["finished", "paused"]
    reason: str = ""


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands, read from its folder."""

    id: str
    state: Literal["new", "running", "paused", "finished"]
    benchmark: str
    base_model: str
    stage: str
    experiment: int
    baseline: Score | None
    journal: Journal
    report: Path | None

    @property
    def best(self) -> Experiment | None:
        """The incumbent."""
        return self.journal.best


def create_run(spec: RunSpec, settings: Settings, run_id: str | None = None) -> RunFolder:
    """A new run's folder. Raises SetupError in one line before anything costs."""
    if run_id and settings.home.run(run_id).spec.exists():
        raise SetupError(
            f"run {run_id!r} exists; `tuneloop resume {run_id}` goes on with it, or choose another --run-id"
        )
    return open_run(spec, settings, run_id or "")


def drive(run: RunFolder, settings: Settings, *, step_n: int | None = None) -> RunOutcome:
    """Run or resume the graph until it is finished or paused; `step_n` pauses after that many nodes.

    Raises SetupError when another process works on the run, WorldError when the world is broken; both leave a run
    that can be resumed.
    """
    with hold(run.lock), open_checkpointer(run) as saver:
        graph = build_graph().compile(checkpointer=saver, name="tuneloop")
        config: RunnableConfig = {"configurable": {"thread_id": run.id}, "recursion_limit": 10_000}
        state = graph.get_state(config)
        if state.values and not state.next:
            return RunOutcome("finished")
        given = None if state.values else State(run_id=run.id)
        ctx = Context(run, settings, State(run_id=run.id))
        if given is None:
            announce(ctx)
        try:
            for done, _ in enumerate(graph.stream(given, config, stream_mode="updates", durability="sync")):
                if step_n is not None and done >= step_n and graph.get_state(config).next:
                    raise Paused(f"{step_n} nodes done")
        except (Paused, WorldError, KeyboardInterrupt) as e:
            ctx.emit(RunPaused(reason=str(e) or "interrupted"))
            if isinstance(e, Paused):
                return RunOutcome("paused", str(e))
            raise
    return RunOutcome("finished")


def run_status(run: RunFolder) -> RunStatus:
    """Where the run stands. Raises SetupError when there is no such run."""
    if not run.spec.is_file():
        raise SetupError(f"run {run.id!r} is not in {run.root.parent}; `tuneloop list runs` shows them")
    spec = RunSpec.model_validate(yaml.safe_load(run.spec.read_text())["spec"])
    stage, experiment = last_node(run)
    finished = run.report_json.is_file()
    state: Literal["new", "running", "paused", "finished"] = "new" if not run.events.is_file() else "paused"
    return RunStatus(
        id=run.id,
        state="running" if is_held(run.lock) else "finished" if finished else state,
        benchmark=Path(spec.benchmark).name,
        base_model=Path(spec.base_model).name if Path(spec.base_model).is_absolute() else spec.base_model,
        stage="finished" if finished else stage,
        experiment=experiment,
        baseline=baseline(run),
        journal=load_journal(run),
        report=run.report if finished else None,
    )


def last_node(run: RunFolder) -> tuple[str, int]:
    """Node and experiment of the newest `node_started` event."""
    size = run.events.stat().st_size if run.events.is_file() else 0
    found, _ = read_events(run.events, max(0, size - TAIL))
    return next(((e.node, e.experiment) for e in reversed(found) if isinstance(e, NodeStarted)), ("new", 0))
