"""What an agent is told before it decides: the same for a chat model and for the offline policy."""

from __future__ import annotations

from pydantic import Field

from tuneloop.core.budget import Amounts
from tuneloop.core.catalog import Direction
from tuneloop.core.directive import LastingCommand
from tuneloop.core.experiment import Diagnosis, Hypothesis, Throughput, Training, Value
from tuneloop.core.frozen import Frozen
from tuneloop.core.run_spec import OnStop
from tuneloop.core.score import Comparison, Score

OVERLAP_RULE = (
    "A row holds an item when the item's sentences stand in it with the same numbers, in any order; one stretch of them may "
    "be missing. Only letters and digits are compared, case does not matter. A short item is matched against whole fields."
)


class SplitSizes(Frozen):
    """Items of the benchmark as the run uses them: `shown` of `validation`, and the sealed `test`."""

    validation: int
    shown: int
    test: int


class TaskCard(Frozen):
    """The task card."""

    benchmark: str
    domain: str
    description: str
    answer: str
    final: str = ""
    reads: str = Field("", description="what of a reply the scorer reads, in its own words")
    prompt: str
    metric: str
    direction: Direction
    max_new_tokens: int
    base_model: str
    datasets: tuple[str, ...]
    sizes: SplitSizes | None = None
    row_limit: int
    seed: int
    device: str
    strong_models: tuple[str, ...] = ()
    weak_models: tuple[str, ...] = ()
    model_workers: int = 0
    on_stop: OnStop = "finish"
    files: tuple[str, ...] = Field((), description="raw files below DATASETS_DIR, the first of each data set")
    refuse_overlaps: bool = False
    evaluated: bool = Field(True, description="False: there is no benchmark, and no model is measured")


class JournalRow(Frozen):
    """One earlier experiment, as agents see it."""

    number: int
    outcome: str
    hypothesis: Hypothesis
    rows: int | None
    training: Training | None
    value: float | None
    low: float | None
    high: float | None
    parsed: float | None
    also: dict[str, float] = {}
    gain: float | None = Field(None, description="points against the incumbent, with a 95 % interval")
    gain_low: float | None = None
    gain_high: float | None = None
    blame: str
    lesson: str
    failure: str | None


class IdeaUnderWay(Frozen):
    """An experiment beside this one; its result is not known to who plans this one."""

    number: int
    hypothesis: Hypothesis


class FailedItem(Frozen):
    """One validation item that a model got wrong; texts are shortened."""

    kind: str
    asked: str
    right: str
    said: str
    found: str | None


class FailureSummary(Frozen):
    """Why a model fails on validation; `experiment` 0 is the untouched model. `kinds`: kind → items, with what it means."""

    experiment: int
    n: int
    kinds: dict[str, tuple[int, str]]
    items: tuple[FailedItem, ...] = ()


class ExpectedMove(Frozen):
    """A move that the table of moves ranks high: points that it may gain, four in five between `low` and `high`.

    `count`: moves of its kind behind the table, 0: it knows none.
    """

    kind: str
    statement: str
    gain: float
    low: float
    high: float
    count: int


class BudgetLeft(Frozen):
    """What is left; None: unlimited."""

    experiments_left: int | None
    seconds_left: float | None
    seconds_per_experiment: float | None = Field(None, description="the median of those that were measured")
    training_seconds: float | None = Field(None, description="the median of their trainings")
    gpu_hours_left: float | None = None
    gpus: int = 1
    tokens_left: int | None = None
    money_left: float | None = Field(None, description="USD")
    usual: Amounts | None = Field(None, description="what experiments took, the median of each; None: nothing is known")

    @property
    def training_left(self) -> float | None:
        """Seconds that are left for trainings: of the time, and of the GPU-hours."""
        held = None if self.gpu_hours_left is None else self.gpu_hours_left * 3600 / self.gpus
        return min((left for left in (self.seconds_left, held) if left is not None), default=None)


class Brief(Frozen):
    """Everything that one agent is told for one answer.

    `blamed`: the culprit that the failing check itself names; `warnings`: what checks found that stops nothing; `script`,
    `config`: the recipe's files of the last attempt; `parent_…`: those of the experiment that the hypothesis builds on.
    """

    task: TaskCard
    experiment: int
    baseline: Score | None = None
    journal: tuple[JournalRow, ...] = ()
    under_way: tuple[IdeaUnderWay, ...] = ()
    budget: BudgetLeft
    throughput: Throughput | None = Field(
        None, description="of the base model on this machine; None: nobody measured it"
    )
    hypothesis: Hypothesis | None = None
    attempt: int = 0
    diagnosis: Diagnosis | None = None
    failure: str = ""
    blamed: str = ""
    warnings: tuple[str, ...] = ()
    script: str = ""
    config: str = ""
    parent_script: str = ""
    parent_config: str = ""
    failures: tuple[FailureSummary, ...] = ()
    ranked: tuple[ExpectedMove, ...] = ()
    score: Score | None = None
    also: dict[str, Score] = {}
    also_baseline: dict[str, Score] = {}
    comparison: Comparison | None = None
    reasons: tuple[str, ...] = ()
    training: Training | None = None
    directives: tuple[LastingCommand, ...] = Field((), description="commands of the user that hold now")
    stop_refused: str = Field("", description="what was said to a proposal to stop: the run goes on")
    kept: dict[str, Value] = Field({}, description="values of the best config that shall stay as they are")
