"""Metrics of one model on one split, with per-item results."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from tuneloop.core.catalog import Direction, Split
from tuneloop.core.frozen import Frozen

FAILED_SHOWN = 3


class ItemResult(Frozen):
    """What became of one item."""

    id: str
    prediction: str
    parsed: str | None = Field(description="the answer found in the prediction; None: unparseable, counted as wrong")
    answer: str
    correct: bool
    value: float = Field(0.0, ge=0, le=1, description="share of the metric; 1 is right, 0 wrong or unreadable")
    group: str = ""
    cluster: str = ""
    error: str = Field("", description="what went wrong in the scorer; such an item is wrong")
    extra: dict[str, Any] = Field({}, description="what further metrics are made of")

    @model_validator(mode="before")
    @classmethod
    def plain_value(cls, values: Any) -> Any:
        """Right is 1, wrong is 0, where nothing finer is said."""
        if isinstance(values, dict) and "value" not in values:
            return {**values, "value": float(bool(values.get("correct")))}
        return values


class GroupScore(Frozen):
    """A part of a benchmark, in percent."""

    value: float = Field(ge=0, le=100)
    n: int = Field(gt=0)
    parsed: float = Field(ge=0, le=100)


class JudgeCounts(Frozen):
    """What a language model decided of the replies that the rule did not call right; `unknown`: no verdict, so wrong."""

    asked: int
    correct: int
    unknown: int


class ScoreSummary(Frozen):
    """Percent values with a 95 % interval; no items."""

    benchmark: str
    split: Split
    metric: str
    direction: Direction = "max"
    value: float = Field(ge=0, le=100)
    low: float
    high: float
    n: int = Field(gt=0)
    parsed: float = Field(ge=0, le=100, description="percent of answers in which an answer was found")
    truncated: int = Field(
        0, ge=0, description="prompts longer than the model's context: asked without their beginning"
    )
    metrics: dict[str, float] = Field({}, description="further numbers, each in its own unit; they decide nothing")
    groups: dict[str, GroupScore] = {}
    judged: JudgeCounts | None = Field(None, description="None: the rule decided alone")


class Score(ScoreSummary):
    """With the items that it was measured on."""

    measured_with: str = Field("", description="hash of engine, device, backend, batching and scorer")
    items: tuple[ItemResult, ...] = Field(
        (), description="what agents may see of validation; all items of other splits"
    )
    unseen: tuple[ItemResult, ...] = Field(
        (), exclude=True, description="validation items that agents do not see: never dumped, kept in `sealed/`"
    )

    @property
    def every(self) -> tuple[ItemResult, ...]:
        """All items that were measured."""
        return (*self.items, *self.unseen)

    @property
    def summary(self) -> ScoreSummary:
        """What callers of a server see."""
        return ScoreSummary(**{name: getattr(self, name) for name in ScoreSummary.model_fields})

    @property
    def bare(self) -> Score:
        """The same without items."""
        return self.model_copy(update={"items": (), "unseen": ()})

    def scorer_failed(self) -> str:
        """How many items the scorer itself failed on, and of those that are shown which; "" where it failed on none."""
        failed = sum(bool(item.error) for item in self.every)
        if not failed:
            return ""
        named = [item for item in self.items if item.error][:FAILED_SHOWN] if self.split != "test" else []
        shown = ", ".join(f"{item.id}: {item.error}" for item in named)
        more = f" and {failed - len(named)} more" if failed > len(named) else ""
        which = f" ({shown}{more})" if shown else ""
        return f"the scorer failed on {failed} of {self.n} items, which count as wrong{which}"


class SealedTest(Frozen):
    """The one reading of the test splits: base and best, () without one; the benchmark that decides is the first."""

    base: tuple[Score, ...] = Field(min_length=1)
    best: tuple[Score, ...] = ()


class Comparison(Frozen):
    """A candidate against another model on the same items."""

    n: int
    units: int = Field(0, description="clusters of items that share a context, else the items")
    gain: float = Field(description="points, candidate minus the other, positive is better")
    low: float = Field(description="points: 95 % interval of the gain")
    high: float
    wins: int = Field(description="items on which the candidate is better")
    losses: int = Field(description="items on which the other is better")
    better: bool = Field(description="whether the sum over the items is higher; a tie is not better")

    @property
    def worse(self) -> bool:
        """Whether the candidate measures below the other."""
        return self.gain < 0


class Claim(Comparison):
    """A candidate against the base model on items that the search never saw."""

    p_value: float = Field(description="two-sided paired test")
    claimed: bool = Field(description="whether test and interval both say that the candidate is better")


class ValidationHalves(Frozen):
    """The candidate's gain over the base model on the validation items that agents see, and on those that they do not."""

    shown: Comparison
    unseen: Comparison
    difference: float = Field(description="points: gain on the shown half minus gain on the unseen one")
    low: float = Field(description="points: 95 % interval of the difference")
    high: float

    @property
    def learned(self) -> bool:
        """Whether the shown half gained more than chance explains: its items may have been learned."""
        return self.low > 0


class GuardCheck(Frozen):
    """What a candidate lost on a benchmark that it must not forget, against the base model; points."""

    benchmark: str
    allowed: float = Field(gt=0)
    n: int
    loss: float = Field(description="measured; negative: a gain")
    worst: float = Field(description="the loss is below this with 95 % confidence")
    smallest: float = Field(
        description="the smallest allowance within which these items can show an equal model to stay"
    )
    kept: bool

    @property
    def able(self) -> bool:
        """Whether these items can show it at all; if not, the measured loss decides."""
        return self.smallest <= self.allowed


class Decision(Frozen):
    """What code decides of a candidate, and every reason against it."""

    comparison: Comparison
    guards: tuple[GuardCheck, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def promoted(self) -> bool:
        """Derived: nothing speaks against it."""
        return not self.reasons
