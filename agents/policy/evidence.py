"""What the experiments so far show: the experiment to build on, its failures, its losses, its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuneloop.agents.policy.situation import BATCH
from tuneloop.core.brief import JournalRow, TaskCard
from tuneloop.core.errors import ToolError
from tuneloop.core.experiment import Hypothesis, Training
from tuneloop.core.protocols import Toolbox
from tuneloop.core.text import endless, equations, tokens

SHOWN = 40


@dataclass(frozen=True)
class FailureShares:
    """What a model says where it fails: shares of the failures looked at."""

    count: int = 0
    unparsed: float = 0.0
    endless: float = 0.0
    stepless: float = 0.0
    false_steps: float = 0.0
    one_answer: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """One measured experiment and what was found out about it."""

    hypothesis: Hypothesis
    number: int
    value: float
    parsed: float
    training: Training | None
    rows: int
    said: FailureShares
    seconds_per_step: float = 0.0

    @property
    def epochs(self) -> float:
        """Times each row was seen."""
        return self.training.steps * BATCH / max(1, self.rows) if self.training else 0.0


async def call_or_none(tools: Toolbox, tool: str, **arguments: Any) -> Any:
    """The tool's answer, None when it refuses: evidence that is missing decides nothing."""
    try:
        return await tools.call(tool, **arguments)
    except ToolError:
        return None


async def read_evidence(task: TaskCard, row: JournalRow, tools: Toolbox) -> Evidence:
    """Ask the server about one experiment of the journal."""
    failures = await call_or_none(tools, "evaluation_explain_failures", experiment=row.number, count=SHOWN)
    training = row.training
    return Evidence(
        hypothesis=row.hypothesis,
        number=row.number,
        value=row.value or 0.0,
        parsed=100.0 if row.parsed is None else row.parsed,
        training=training,
        rows=row.rows or (training.rows if training else 0),
        said=read_failures((failures or {}).get("items", []), task.max_new_tokens),
        seconds_per_step=training.seconds / training.steps if training and training.steps else 0.0,
    )


def read_failures(failures: Sequence[dict[str, Any]], max_new_tokens: int) -> FailureShares:
    """Shares of the kinds of failure."""
    n = max(1, len(failures))
    texts = [str(f.get("prediction") or "") for f in failures]
    answers = Counter(str(f.get("parsed")) for f in failures if f.get("parsed") is not None)
    solved = [equations(text) for text in texts]
    return FailureShares(
        count=len(failures),
        unparsed=sum(f.get("parsed") is None for f in failures) / n,
        endless=sum(endless(text, max_new_tokens) for text in texts) / n,
        stepless=sum(len(tokens(text)) <= 6 for text in texts) / n,
        false_steps=sum(any(not holds for _, _, holds in found) for found in solved) / n,
        one_answer=max(answers.values(), default=0) / n,
    )


def parent_of(journal: Sequence[JournalRow], direction: str) -> JournalRow | None:
    """The experiment to build on: the incumbent, else the best that was measured; None when none was."""
    promoted = [row for row in journal if row.outcome == "promoted"]
    if promoted:
        return promoted[-1]
    sign = 1 if direction == "max" else -1
    # What gained and was not promoted was turned down by a guard.
    measured = [row for row in journal if row.value is not None and not (row.gain and row.gain > 0)]
    return max(measured, key=lambda row: sign * (row.value or 0.0), default=None)
