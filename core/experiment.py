"""One turn of the loop and the journal of all turns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import Literal

from pydantic import ConfigDict, Field

from tuneloop.core.frozen import Frozen
from tuneloop.core.score import Comparison, GuardCheck, Score


class Cost(Frozen):
    """Cost of all attempts and processes of one training, including start, checkpoints and end.

    `memory` is the most that was resident at once, in bytes; pages that a job shares with the warm engine it is a fork
    of count whole. `device_memory`: bytes that PyTorch held of the accelerator at most; None without one.
    """

    seconds: float
    cpu: float = Field(0.0, description="CPU seconds; 0: nobody counted")
    memory: int = 0
    device_memory: int | None = None


class Forecast(Cost):
    """Forecast of a full training; `overhead`: seconds that are not optimizer steps."""

    steps: int
    epochs: float = Field(0.0, description="passes over the rows that the engine makes of the built data")
    seconds_per_step: float
    overhead: float = 0.0
    disk: int = Field(0, description="bytes that checkpoints and model take at most")
    recipe: str = Field("", description="digest of base model, device and what of the config costs memory")


SMOKE_STEPS = 10  # of a smoke run at most


def smoke_run_steps(steps: int) -> int:
    """Optimizer steps of the smoke run before a training of so many: a quarter of them, five to ten."""
    return min(SMOKE_STEPS, max(SMOKE_STEPS // 2, steps // 4))


class Throughput(Frozen):
    """How fast the base model trains on this machine, measured by a few steps before anything is planned.

    A batch of `rows` rows with `tokens` tokens, padding included, takes `seconds`, and `per_token` for each token more;
    `overhead`: seconds of a training that are not optimizer steps.
    """

    method: str
    device: str
    threads: int
    rows: int
    tokens: float
    seconds: float
    per_token: float
    overhead: float

    def step_seconds(self, rows: float, tokens: float) -> float:
        """Seconds of an optimizer step of `rows` rows of so many tokens each, in batches as they were measured."""
        batch = max(0.0, self.seconds + self.per_token * (self.rows * tokens - self.tokens))
        return max(1.0, rows / self.rows) * batch

    @property
    def measured_with(self) -> str:
        """What the figures are of: `lora, batches of 2 rows, on cpu with 2 thread(s)`."""
        threads = f" with {self.threads} thread(s)" if self.device == "cpu" else ""
        return f"{self.method}, batches of {self.rows} rows, on {self.device}{threads}"


def forecast_error_percent(forecast: float, real: float) -> float:
    """How much too high (or, negative, too low) a forecast was, in percent; 0 where nothing was measured."""
    return 100 * (forecast / real - 1) if real else 0.0


Culprit = Literal["script", "data", "config", "environment"]
Value = str | int | float | bool
Outcome = Literal["failed", "promoted", "not promoted", "not evaluated"]
NOT_EVALUATED: Outcome = "not evaluated"  # it was trained, in a run without a benchmark


class Step(Frozen):
    """One thing the data script shall do, e.g. `drop_contradicted`, and why."""

    model_config = ConfigDict(extra="forbid")

    do: str
    why: str = ""
    options: dict[str, Value | list[str]] = {}


class Hypothesis(Frozen):
    """One falsifiable idea: the researcher's answer."""

    model_config = ConfigDict(extra="forbid")

    statement: str = Field(min_length=1, description="what will improve the score, and by what change")
    reason: str = Field(description="the evidence that speaks for it")
    disproof: str = Field(description="what result would show it wrong")
    aspect: str = Field(
        description="what is changed: first, format, noise, coverage, style, underfit, overfit, rate, method"
    )
    parent: int | None = Field(
        None, description="number of the experiment it builds on; left out: the incumbent; 0: from scratch"
    )
    data_plan: tuple[Step, ...] = ()
    training_plan: dict[str, Value] = Field({}, description="LLaMA-Factory values the config shall have")
    move: str = Field("", description="the kind of the ranked move that it is; else empty")
    expected_gain: float | None = Field(None, description="points that it is expected to gain on validation")
    stop: bool = Field(False, description="true: no further experiment is worth its cost; `reason` says why")


class DataScript(Frozen):
    """The data engineer's answer: `process_data.py`."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1)
    notes: str = ""


class TrainConfig(Frozen):
    """The config coder's answer: `train.yaml`."""

    model_config = ConfigDict(extra="forbid")

    yaml: str = Field(min_length=1)
    notes: str = ""


class Diagnosis(Frozen):
    """The validator's answer after a failure."""

    model_config = ConfigDict(extra="forbid")

    culprit: Culprit
    problem: str
    repair: str = Field(description="what the culprit's author shall change")


class Critique(Frozen):
    """The critic's answer: it explains, code decides."""

    model_config = ConfigDict(extra="forbid")

    explanation: str
    lesson: str = Field(description="one sentence worth keeping for the next experiments")
    blame: str = Field("none", description="format, noise, coverage, style, underfit, overfit, rate, method or none")


class Failure(Frozen):
    """Why an experiment has no score."""

    node: str
    culprit: str
    text: str


class Feedback(Frozen):
    """The promotion decision, made by code, and the critic's explanation."""

    promoted: bool
    comparison: Comparison | None = None
    guards: tuple[GuardCheck, ...] = ()
    reasons: tuple[str, ...] = Field((), description="everything that speaks against it")
    critique: Critique


EarlyStopKind = Literal[
    "nan",
    "zero",
    "diverged",
    "exploded",
    "flat",
    "stalled",
    "disk",
    "memory",
    "deadline",
    "no_reward",
    "collapse",
    "length",
]


@dataclass(frozen=True)
class TrainingFinding:
    """A problem found by the training monitor; `good`: the last logged step before it, None when the model is intact.

    Level `stop`: waiting cannot fix it.
    """

    kind: EarlyStopKind
    level: Literal["warning", "stop"]
    text: str
    step: int
    good: int | None = None


class EarlyStop(Frozen):
    """Why a training was ended before its last step; its model is that of the last whole checkpoint before the failure."""

    kind: EarlyStopKind
    text: str = Field(description="the evidence, in one sentence")
    at: int = Field(description="step at which it was stopped")
    step: int = Field(description="step of the model that is kept")
    of: int = Field(description="steps that were planned")


class Training(Frozen):
    """What a training left besides weights; seconds, steps and losses from the engine's own log."""

    steps: int
    seconds: float
    rows: int
    first_loss: float
    last_loss: float
    tail_slope: float = Field(
        description="relative change of smoothed loss over the last quarter; negative: still falling"
    )
    method: Literal["full", "lora", "freeze", "oft"]
    reward: tuple[float, float] | None = Field(
        None, description="of GRPO: what replies earned on average in the first and in the last tenth of the steps"
    )
    stopped: EarlyStop | None = None
    spent: Cost | None = None
    forecast: Forecast | None = Field(None, description="the smoke run's, to be held against what was spent")
    left_out: tuple[str, ...] = Field((), description="foreign files that it left and nobody took")

    @property
    def course(self) -> str:
        """Loss, or of GRPO reward, from first to last."""
        if self.reward is not None:
            return f"reward {self.reward[0]:.3f} → {self.reward[1]:.3f}"
        return f"{self.first_loss:.3f} → {self.last_loss:.3f}"


class Experiment(Frozen):
    """Hypothesis, recipe, training, score, feedback. Written last, as `experiment.json`."""

    number: int = Field(ge=1)
    hypothesis: Hypothesis
    script: str = Field("", description="digest of process_data.py")
    config: str = Field("", description="digest of train.yaml")
    training: Training | None = None
    score: Score | None = Field(None, description="validation; items are left out here, they lie in scores.json")
    also: dict[str, Score] = Field({}, description="validation of further benchmarks, without items")
    failure: Failure | None = None
    feedback: Feedback
    repairs: int = 0
    seconds: float = 0

    @property
    def outcome(self) -> Outcome:
        """Derived from failure, score and feedback, so that it cannot contradict them."""
        if self.score is None:
            return "failed" if self.failure else NOT_EVALUATED
        return "promoted" if self.feedback.promoted else "not promoted"


class Candidate(Frozen):
    """A trained model: `training` 1 is the experiment's own, others had further seeds."""

    experiment: int
    training: int = 1


class Candidates(Frozen):
    """What goes to the sealed test, and the validation scores of each recipe's trainings, its own first."""

    chosen: Candidate | None = None
    values: dict[int, tuple[float, ...]] = {}


class Journal(Frozen):
    """The experiments of a run in order."""

    experiments: tuple[Experiment, ...] = ()

    @property
    def best(self) -> Experiment | None:
        """The incumbent: the experiment promoted last."""
        return next((e for e in reversed(self.experiments) if e.outcome == "promoted"), None)

    @property
    def promoted(self) -> tuple[Experiment, ...]:
        """Every experiment that became the incumbent, the last one first."""
        return tuple(e for e in reversed(self.experiments) if e.outcome == "promoted")

    @property
    def scored(self) -> int:
        """How many candidates were measured."""
        return sum(e.score is not None for e in self.experiments)

    @property
    def unpromoted(self) -> int:
        """How many experiments in a row were not promoted since the last that was. What a user turned down is none."""
        last = takewhile(lambda e: e.outcome != "promoted", reversed(self.experiments))
        return sum(e.failure is None or e.failure.culprit != "user" for e in last)

    @property
    def usual_seconds(self) -> float | None:
        """What an experiment takes: the median of those that were measured; None before the first."""
        took = [e.seconds for e in self.experiments if e.score is not None]
        return median(took) if took else None

    @property
    def failed(self) -> int:
        """How many experiments left no model."""
        return sum(e.outcome == "failed" for e in self.experiments)


ApprovalPoint = Literal["plan", "launch", "stop"]


class ApprovalRequest(Frozen):
    """The question: `key` is of the recipe and the attempt; `text` says plan, cost so far and forecast."""

    model_config = ConfigDict(extra="forbid")

    at: ApprovalPoint
    experiment: int
    key: str
    text: str


class ApprovalDecision(Frozen):
    """The answer; `edit`: go on with these files and this hypothesis in place of those that were shown."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["yes", "no", "edit"]
    reason: str = ""
    files: dict[Literal["process_data.py", "train.yaml"], str] = {}
    hypothesis: Hypothesis | None = None
