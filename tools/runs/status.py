"""Where a run stands, read from its folder alone: any length of run, no graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tuneloop.core.event_log import last_event
from tuneloop.core.events import NodeStarted
from tuneloop.core.experiment import Experiment, Journal
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.score import Score
from tuneloop.tools.runs.journal import baseline, load_journal
from tuneloop.tools.runs.manifest import read_spec

RunState = Literal["new", "running", "paused", "finished"]

# A node emits far less between its start and the next one's.
TAIL = 1 << 18


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands."""

    id: str
    state: RunState
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


def run_state(run: RunFolder) -> RunState:
    """In one word."""
    if is_locked(run.lock):
        return "running"
    if run.report_json.is_file():
        return "finished"
    return "paused" if run.events.is_file() else "new"


def run_status(run: RunFolder) -> RunStatus:
    """Everything `tuneloop status` shows. Raises SetupError when there is no such run."""
    spec = read_spec(run)
    stage, experiment = last_node(run)
    finished = run.report_json.is_file()
    return RunStatus(
        id=run.id,
        state=run_state(run),
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
    found = last_event(run.events, "node_started", TAIL)
    return (found.node, found.experiment) if isinstance(found, NodeStarted) else ("new", 0)
