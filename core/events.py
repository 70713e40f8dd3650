"""What happens in a run: typed events, appended to `events.jsonl` by one writer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from tuneloop.core.budget import Kind
from tuneloop.core.experiment import Cost, Forecast, Outcome, Throughput
from tuneloop.core.frozen import Frozen


class Base(Frozen):
    """Time of writing, and the experiment it belongs to (0: the run itself)."""

    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    experiment: int = 0


class RunStarted(Base):
    """An orchestrator started or resumed the run."""

    kind: Literal["run_started"] = "run_started"
    run: str
    benchmark: str
    base_model: str
    planner: str
    sandbox: str
    sandbox_note: str = Field("", description="what this kind lacks that others have")


class NodeStarted(Base):
    """A node began."""

    kind: Literal["node_started"] = "node_started"
    node: str

    @property
    def about(self) -> int:
        """The experiment that the node works on: research opens the next one, steer is the run's own."""
        return 0 if self.node == "steer" else self.experiment + (self.node == "research")

    def ended_by(self, event: object) -> bool:
        """Whether `event` ends this turn: one node of an experiment works at a time, and one research of the run."""
        if not isinstance(event, NodeFinished | NodeInterrupted) or event.node != self.node:
            return False
        return self.node == "research" or event.experiment == self.experiment


class NodeFinished(Base):
    """A node ended; `detail` says in a few words with what."""

    kind: Literal["node_finished"] = "node_finished"
    node: str
    seconds: float
    cpu: float = Field(0.0, description="CPU seconds of the orchestrator itself, jobs not counted")
    detail: str = ""


class NodeInterrupted(Base):
    """A node was interrupted by a pause, a question or an infrastructure error; a crash leaves no event."""

    kind: Literal["node_interrupted"] = "node_interrupted"
    node: str
    seconds: float


class AgentAnswered(Base):
    """An agent decided."""

    kind: Literal["agent_answered"] = "agent_answered"
    agent: str
    says: str
    why: str = ""


class AgentStreaming(Base):
    """The newest words of a streamed model reply; at most one event per second."""

    kind: Literal["agent_thinks"] = "agent_thinks"
    agent: str
    model: str
    text: str
    letters: int = Field(description="said so far in this call")


class ToolCalled(Base):
    """An agent called a tool; `says`: the beginning of the result."""

    kind: Literal["tool_used"] = "tool_used"
    agent: str
    tool: str
    arguments: str
    says: str
    refused: bool = False


class ModelCalled(Base):
    """A model call ended. `cost` None: the price is unknown; `wait`: seconds until the next try."""

    kind: Literal["model_called"] = "model_called"
    agent: str
    model: str
    outcome: Literal["answered", "failed"]
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    seconds: float = 0
    cost: float | None = None
    error: str = ""
    wait: float | None = None


class PlannerFallback(Base):
    """A model did not answer and the next of the chain is called; `offline` is the policy that needs no model."""

    kind: Literal["planner_fell_back"] = "planner_fell_back"
    agent: str
    left: str
    to: str
    reason: str


class JobProgress(Base):
    """A job's progress; `total` 0 means unknown."""

    kind: Literal["job_progress"] = "job_progress"
    job: str
    done: int
    total: int
    unit: str = "steps"
    note: str = ""


class MonitorFinding(Base):
    """A finding of the training monitor; `stops`: it ends the training."""

    kind: Literal["monitor_finding"] = "monitor_finding"
    job: str
    failure: str
    text: str
    step: int
    total: int
    stops: bool


class TrainingForecast(Base):
    """Forecast of a training by its smoke run; emitted again, with what it `took`, when the training is over."""

    kind: Literal["forecasted"] = "forecasted"
    forecast: Forecast
    took: Cost | None = None
    seconds_left: float | None = Field(None, description="of the run's time for this training; null: unlimited")
    memory_limit: int | None = None


class ThroughputMeasured(Base):
    """How fast the base model trains on this machine; `known`: an earlier run of this home measured it."""

    kind: Literal["throughput_measured"] = "throughput_measured"
    throughput: Throughput
    known: bool = False


class RecipeFailure(Base):
    """A recipe failed somewhere; it is repaired or becomes a failed experiment."""

    kind: Literal["recipe_failure"] = "recipe_failure"
    node: str
    culprit: str
    text: str


class SplitPower(Frozen):
    """Statistical power of one benchmark's split, in points, before anything is measured."""

    benchmark: str
    n: int
    units: int = Field(description="clusters of items that share a context, else the items")
    smallest: float = Field(description="gain that is claimed, or loss that is ruled out, four times in five")
    allowed: float | None = Field(None, description="of a guard: points that may be lost")


class PowerEstimated(Base):
    """The smallest gain that the sealed test can show; emitted before anything costs."""

    kind: Literal["power_estimated"] = "power_estimated"
    sealed: SplitPower


class ValidationChosen(Base):
    """How many validation items every model of the run is measured on, and what the guards' items can show."""

    kind: Literal["validation_chosen"] = "validation_chosen"
    benchmark: str
    n: int
    unseen: int = Field(description="of them, those that agents do not see")
    units: int = Field(description="clusters of items that share a context, else the items")
    why: str
    guards: tuple[SplitPower, ...] = ()


class BaselineMeasured(Base):
    """The untouched model's validation score."""

    kind: Literal["baseline_measured"] = "baseline_measured"
    value: float
    low: float
    high: float
    n: int


class ExperimentFinished(Base):
    """One turn is over."""

    kind: Literal["experiment_finished"] = "experiment_finished"
    outcome: Outcome
    statement: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    gain: float | None = Field(None, description="points against the incumbent, with a 95 % interval")
    gain_low: float | None = None
    gain_high: float | None = None
    why: str = Field("", description="what a guard has against a candidate that is better")
    seconds: float = 0


class MessageAnswered(Base):
    """The run answered a message."""

    kind: Literal["message_answered"] = "message_answered"
    said: str
    answer: str


class Approval(Base):
    """An approval of an experiment was requested or decided."""

    kind: Literal["approval"] = "approval"
    when: Literal["plan", "launch", "stop"]
    decision: Literal["asked", "yes", "no", "edit"]
    reason: str = ""


class LimitWarning(Base):
    """80 % of a limit are spent; emitted once per limit, in seconds, GPU-hours, tokens or USD."""

    kind: Literal["limit_near"] = "limit_near"
    of: Kind
    spent: float
    limit: float


class RunPaused(Base):
    """The run stopped before its end; `tuneloop resume` continues it."""

    kind: Literal["run_paused"] = "run_paused"
    reason: str


class RunFinished(Base):
    """The report is written. `says`: its first line; `best`: the experiment that measured best on validation."""

    kind: Literal["run_finished"] = "run_finished"
    report: str
    says: str
    best: int | None = None
    delivered: bool = False
    baseline_test: float | None = None
    best_test: float | None = None


Event = Annotated[
    RunStarted
    | NodeStarted
    | NodeFinished
    | NodeInterrupted
    | AgentAnswered
    | AgentStreaming
    | ToolCalled
    | ModelCalled
    | PlannerFallback
    | JobProgress
    | MonitorFinding
    | TrainingForecast
    | ThroughputMeasured
    | RecipeFailure
    | PowerEstimated
    | ValidationChosen
    | BaselineMeasured
    | ExperimentFinished
    | MessageAnswered
    | Approval
    | LimitWarning
    | RunPaused
    | RunFinished,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
