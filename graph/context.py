"""What every node works with: the run's places, tools, agents and event log."""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from tuneloop.agents.planners import make_planner
from tuneloop.core.budget import SpendingLine
from tuneloop.core.event_log import append
from tuneloop.core.events import Event
from tuneloop.core.experiment import Journal
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.protocols import EvaluationJobs, Planner, TrainingJobs
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import transcript_path
from tuneloop.graph.agent_calls.planner_context import make_planner_context
from tuneloop.graph.budget.limits import device_seconds, seconds_limit, spent_of_limits
from tuneloop.graph.state import State
from tuneloop.graph.telemetry.export import send_event
from tuneloop.graph.telemetry.notifications import notify
from tuneloop.graph.telemetry.team import update_team
from tuneloop.graph.telemetry.tracker_process import feed_trackers
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.journal import known_journal, load_journal

# Events of a working node go to LangGraph's custom stream, for Studio, `astream` and API clients.

Show = Callable[[Event], None]
LOOK = 2.0  # seconds between looks at what is left, for each of the experiments side by side


def ignore_event(event: Event) -> None:
    """Show nothing: events go to `events.jsonl` only."""


def live_stream() -> Show:
    """Writer for the calling node's events, usable from any thread and context; outside a graph it does nothing."""
    from langgraph.config import get_stream_writer  # takes 0.4 s: `tuneloop chat` answers without it

    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        return ignore_event
    node = contextvars.copy_context()

    def show(event: Event) -> None:
        with contextlib.suppress(RuntimeError):  # the listener's event loop is closed
            node.copy().run(write, event.model_dump(mode="json", exclude_none=True))

    return show


Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class Context:
    """One run in the hand of one node.

    `show`: to who watches the graph's stream; `interactive`: somebody is there and can be asked; `at_most`: seconds that this
    node may take, whatever the run's time; `holds_gpus`: no longer than the run's GPU-hours reach either. `slot`: the
    experiment that this invocation of the graph is for, 0: the whole run; `all_results`: all experiments that are over count;
    `began`: when this node did.
    """

    run: RunFolder
    settings: Settings
    state: State
    show: Show = ignore_event
    interactive: bool = False
    seconds_limit: float | None = None
    holds_gpus: bool = False
    slot: int = 0
    all_results: bool = False
    began: float = field(default_factory=time.monotonic)

    @cached_property
    def run_tools(self) -> RunTools:
        """Tools that code uses directly."""
        return RunTools(self.run, self.settings)

    @cached_property
    def planner(self) -> Planner:
        """Where decisions come from."""
        return make_planner(self.settings, make_planner_context(self))

    @property
    def folder(self) -> ExperimentFolder:
        """The open experiment."""
        return self.run.experiment(self.state.experiment)

    @property
    def number(self) -> int:
        """Of the open experiment."""
        return self.state.experiment

    @property
    def journal(self) -> Journal:
        """The experiments that count for the open one, whatever else is over by now: agents are told of these."""
        whole, window = load_journal(self.run), self.run_tools.spec.window
        if self.all_results or window == 1:
            return whole
        return known_journal(self.run, whole, self.state.experiment - window)

    @property
    def worked(self) -> float:
        """Seconds since this node began."""
        return time.monotonic() - self.began

    def seconds_left(self, since: float = 0.0) -> float | None:
        """Of the run's time, or of what this node may take, `since` seconds after it began; None: unlimited."""
        limit = seconds_limit(self.run, self.run_tools.spec)
        left = None if limit is None else limit - self.state.spent - since
        return min((seconds for seconds in (left, self.most(since)) if seconds is not None), default=None)

    def most(self, since: float = 0.0) -> float | None:
        """Seconds that this node may take from then on, whatever the run's time; GPU-hours go as jobs run, not as they wait."""
        left = None if self.seconds_limit is None else self.seconds_limit - since
        spec = self.run_tools.spec
        held = device_seconds(self.run, spec, spec.parallel if self.slot else 1) if self.holds_gpus else None
        return min((seconds for seconds in (left, held) if seconds is not None), default=None)

    def spent_of_limits(self, since: float = 0.0) -> list[SpendingLine]:
        """What was spent of each limit that the run has, `since` seconds after this node began."""
        return spent_of_limits(self.run, self.run_tools.spec, max(0.0, self.state.spent) + since)

    def first_limit(self, since: float = 0.0) -> str:
        """What ends this node first: `time` or `GPU time`."""
        whole = replace(self, seconds_limit=None, holds_gpus=False).seconds_left(since)
        most = self.most(since)
        return "time" if most is None or (whole is not None and whole <= most) else "GPU time"

    def clock(self) -> Callable[[], float | None]:
        """The same at any later moment of this node; what was added meanwhile counts. Files are looked at every few seconds."""
        looked = time.monotonic()
        left, every = self.seconds_left(looked - self.began), LOOK * self.run_tools.spec.parallel

        def now() -> float | None:
            nonlocal looked, left
            at = time.monotonic()
            if at - looked >= every or (left is not None and left < at - looked):
                looked, left = at, self.seconds_left(at - self.began)
            return None if left is None else left - (at - looked)

        return now

    def without_deadline(self) -> Context:
        """The same without a deadline: the end of a run is not skipped because its time is over."""
        return replace(
            self, state=self.state.model_copy(update={"spent": float("-inf")}), seconds_limit=None, holds_gpus=False
        )

    @cached_property
    def scope(self) -> Scope:
        """What the servers of this run may touch."""
        return Scope(self.run, self.settings)

    def transcript(self, agent: str) -> Path:
        """Where the calls behind the agent's answer of this attempt are written."""
        return transcript_path(self.folder.answers, agent, self.state.attempt)

    def again(self, training: int) -> Context:
        """The same for another training of the open experiment's recipe, with a seed of its own."""
        return replace(self, run=replace(self.run, training=training))

    @cached_property
    def training(self) -> TrainingJobs:
        """Smoke runs and trainings, launched and watched through their server."""
        from tuneloop.mcp_servers.client import McpTraining  # fastmcp is slow to import: only where it is needed

        return McpTraining(self.scope)

    @cached_property
    def evaluation(self) -> EvaluationJobs:
        """Evaluations on validation, launched and watched through their server."""
        from tuneloop.mcp_servers.client import McpEvaluation

        return McpEvaluation(self.scope)

    def emit(self, event: Event) -> None:
        """Append to `events.jsonl`; only the holder of the run's lock comes here."""
        append(self.run.events, event)
        send_event(self.run, event)
        notify(self.run, self.settings, event)
        feed_trackers(self.run, self.settings, event)
        update_team(self.run, self.settings, event)
        self.show(event)
