"""Everything a report is made of; numbers are measured elsewhere and only told here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.core.budget import Limits, Spent
from tuneloop.core.catalog import Benchmark
from tuneloop.core.experiment import Candidates, Experiment, Journal
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.score import Claim, GuardCheck, Score, ValidationHalves
from tuneloop.tools.data_gate.report import GateReport
from tuneloop.tools.hub.base_models import ModelChoice
from tuneloop.tools.llm_proxy.ledger import Sums
from tuneloop.tools.report.timing import total_time
from tuneloop.tools.report.turns import NodeTime
from tuneloop.tools.runs.fork import Fork

Curve = tuple[tuple[int, float], ...]


class FurtherBenchmark(BaseModel):
    """A further benchmark; it decided nothing."""

    model_config = ConfigDict(frozen=True)

    benchmark: str
    model_choice: ModelChoice | None = Field(None, description="why this base model, where the user named none")
    baseline_validation: Score
    best_validation: Score | None
    baseline_test: Score
    best_test: Score | None


class ModelUse(BaseModel):
    """What agents, data scripts or the judge asked of one model; `price`: `own`, `list`, or "" where nobody knows it."""

    model_config = ConfigDict(frozen=True)

    who: str
    model: str
    price: str
    sums: Sums


class RunFacts(BaseModel):
    """What every report tells: how the run came about and what it took."""

    model_config = ConfigDict(frozen=True)

    spec: RunSpec
    benchmark: Benchmark
    base_model: str = Field(description="its name, never a folder of this machine")
    model_choice: ModelChoice | None = Field(None, description="why this base model, where the user named none")
    candidates: Candidates = Candidates()
    journal: Journal
    losses: dict[int, Curve] = Field({}, description="experiment → (step, training loss) in order")
    data: dict[int, GateReport] = Field({}, description="experiment → what the data gate found")
    warnings: dict[int, tuple[str, ...]] = Field({}, description="experiment → what checks found that stopped nothing")
    seconds: float = Field(ge=0, description="work of all sessions")
    times: tuple[NodeTime, ...] = Field((), description="what each node of each experiment took")
    calls: dict[str, Sums] = Field({}, description="job → what it asked of models")
    spent: Spent = Spent()
    limits: Limits = Limits()
    loop_n: int | None = Field(None, description="experiments that it might do in the end; None: unlimited")
    models: tuple[ModelUse, ...] = Field((), description="what was asked of each model, and by whom")
    versions: dict[str, str] = {}
    seeds: dict[str, int] = {}
    sandbox: str
    planner: str
    answers: dict[str, int] = Field({}, description="who gave how many answers of agents, where chat models were asked")
    stopped: str = Field("", description='why the run ended before its limits; "": a limit or a person ended it')

    @property
    def best(self) -> Experiment | None:
        """The experiment whose model is the candidate; None: there is no candidate."""
        return self.journal.experiments[number - 1] if (number := self.number) else None

    @property
    def number(self) -> int | None:
        """Of that experiment."""
        return self.candidates.chosen.experiment if self.candidates.chosen else None

    @property
    def nodes(self) -> tuple[NodeTime, ...]:
        """Every node over all experiments, in the order of the loop."""
        names = dict.fromkeys(part.node for part in self.times)
        return tuple(total_time((part for part in self.times if part.node == name), name) for name in names)


class ReportData(RunFacts):
    """Input of `write_report`. `best` is the model that went to the sealed test, if there was one."""

    baseline_validation: Score
    best_validation: Score | None = None
    baseline_test: Score
    best_test: Score | None = None
    claim: Claim | None = Field(None, description="best against base on the sealed test")
    smallest_gain: float = Field(
        description="points: found on the sealed test four times in five, as told at the start"
    )
    validation_shown: int = Field(description="validation items that agents see")
    halves: ValidationHalves | None = Field(
        None, description="gain on shown and on unseen validation items; None: all are shown"
    )
    guards_test: tuple[GuardCheck, ...] = Field((), description="best against base on the sealed tests of guards")
    also: tuple[FurtherBenchmark, ...] = ()
    raw_overlaps: dict[str, int] = Field(
        {}, description="data set → raw records seen to hold validation items; their numbers are told to data scripts"
    )
    refused: dict[int, int] = Field(
        {},
        description="experiment → rows that its gate refused for their validation items, before a script left them out",
    )
    removed: dict[str, int] = Field(
        {}, description="data set → raw rows with sealed items, which were removed before anything of the run read it"
    )
    scorer_failed: dict[str, str] = Field({}, description="model and split → on what items the scorer itself failed")
    fork: Fork | None = Field(None, description="the run on whose first experiments this one stands")
    lineage_opened: bool = Field(False, description="whether that run, or one it stands on, has opened its sealed test")
    opening: int = Field(ge=1, description="which opening of this test split on this machine this was")

    @property
    def delivered(self) -> bool:
        """Whether there is a model: the sealed test did not measure it below the base model."""
        return self.claim is not None and not self.claim.worse

    @property
    def claimed(self) -> bool:
        """Whether the report may say that the model is better than the base model."""
        return self.claim is not None and self.claim.claimed and not self.lineage_opened

    @property
    def measured(self) -> int:
        """Trained models that were measured on validation."""
        return self.journal.scored + sum(len(values) - 1 for values in self.candidates.values.values())


def overlap_counts(report: GateReport) -> dict[str, int]:
    """Split → rows that were dropped because they overlap with its items."""
    return {split: report.dropped.get(f"overlap with {split}", 0) for split in ("validation", "unseen", "test")}
