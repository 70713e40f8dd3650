"""What the layers use of each other: tools, trainings and evaluations of servers, and planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, Field

from tuneloop.core.brief import Brief
from tuneloop.core.experiment import TrainingFinding
from tuneloop.core.frozen import Frozen
from tuneloop.core.job import JobReport
from tuneloop.core.score import ScoreSummary

# The interface through which agents call tools; implemented over MCP in `mcp_servers/client.py`.


@dataclass(frozen=True)
class ToolCard:
    """A tool as a model sees it: `<server>_<tool>`, what it does, the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class Toolbox(Protocol):
    """Tools of one caller. Names are `<server>_<tool>`, e.g. `data_profile_dataset`."""

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The tool's structured answer (plain JSON values). Raises ToolError with the tool's own sentence."""
        ...

    async def names(self) -> Sequence[str]:
        """Names of the tools this caller may use."""
        ...

    async def cards(self) -> Sequence[ToolCard]:
        """The same tools with what a model must know to use them."""
        ...


# The interfaces of the servers `training` and `evaluation` for nodes; implemented there too.

TrainingKind = Literal["smoke_run", "train"]


class Launched(Frozen):
    """A job that was started, or found running or over."""

    experiment: int
    job: str | None = Field(description="name of the job; null: nothing is left to do")


class LossPoint(Frozen):
    """One logged step; null: no finite number."""

    step: int
    loss: float | None
    grad_norm: float | None
    learning_rate: float | None


class TrainingStatus(JobReport):
    """How far a training is; points and findings while it runs."""

    loss: float | None = None
    points: tuple[LossPoint, ...] = ()
    findings: tuple[TrainingFinding, ...] = ()


class EvaluationStatus(JobReport):
    """How far an evaluation is; `scores`: of each benchmark, the one that decides first, null before they are there."""

    scores: tuple[ScoreSummary, ...] | None = None


class TrainingJobs(Protocol):
    """Smoke runs and trainings of a run's experiments. Raises the tools' own errors."""

    def launch(self, experiment: int, kind: TrainingKind) -> Launched:
        """Start it; returns at once. What runs or is over stays as it is."""
        ...

    def status(self, experiment: int, kind: TrainingKind, seconds_left: float | None = None) -> TrainingStatus:
        """How far it is; `seconds_left` until it has to be over and evaluated, None: no limit."""
        ...

    def stop(self, experiment: int, kind: TrainingKind, *, save: bool = True) -> TrainingStatus:
        """Ask it to end after the step at hand; with `save` it leaves a checkpoint there."""
        ...


class EvaluationJobs(Protocol):
    """Evaluations of a run's models on validation; experiment 0 is the untouched model. Raises the tools' own errors."""

    def evaluate(self, experiment: int) -> Launched:
        """Start the next of its jobs; returns at once."""
        ...

    def result(self, experiment: int) -> EvaluationStatus:
        """How far it is, and the scores."""
        ...

    def stop(self, experiment: int) -> EvaluationStatus:
        """End it."""
        ...


Answer = TypeVar("Answer", bound=BaseModel)


class Planner(Protocol):
    """Gives typed answers; validated the same way for every planner."""

    name: str

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Toolbox, want: type[Answer]) -> Answer:
        """The agent's answer. Raises RecipeError when none that is usable was found."""
        ...
