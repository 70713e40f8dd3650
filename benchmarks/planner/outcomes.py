"""Scores and trainings of a simulated experiment in the loop's own types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from planner.simulated_task import Truth
from planner.space import Point
from tuneloop.core.experiment import Training
from tuneloop.core.score import ItemResult, Score
from tuneloop.tools.statistics import wilson

CURVE = 12
STEP_SECONDS = 0.15
SILENCE = {"prediction": "", "parsed": None, "answer": "0"}


def untouched(base: dict[str, Any]) -> Score:
    """The base model's score, item by item as recorded."""
    right = [mark == "1" for mark in base["items"]]
    return score(["0"] * len(right), right, [SILENCE] * len(right)).model_copy(update={"parsed": base["parsed"]})


def score(answers: Sequence[str], right: Sequence[bool], said: Sequence[dict[str, Any]]) -> Score:
    """A score of items; those that are right say nothing of interest."""
    items = tuple(
        ItemResult.model_construct(
            id=f"validation-{i:03}", prediction="" if ok else str(f["prediction"]), parsed=answer if ok else f["parsed"],
            answer=answer, correct=ok, value=float(ok), group="", cluster="", error="", extra={},
        )
        for i, (answer, ok, f) in enumerate(zip(answers, right, said, strict=True))
    )  # fmt: skip
    n, good = len(items), sum(right)
    low, high = wilson(good, n)
    return Score(
        benchmark="simulated", split="validation", metric="accuracy", value=100 * good / n, low=low, high=high, n=n,
        parsed=100 * sum(item.parsed is not None for item in items) / n, items=items,
    )  # fmt: skip


def trained(truth: Truth, point: Point) -> Training:
    """What the journal would say of the training."""
    return Training(
        steps=point.steps, seconds=STEP_SECONDS * point.steps, rows=truth.rows, first_loss=truth.first_loss,
        last_loss=truth.last_loss, tail_slope=truth.tail, method="lora" if point.method == "lora" else "full",
    )  # fmt: skip


def curve(training: Training) -> list[dict[str, float]]:
    """A falling loss between the two that are fitted."""
    fall = [(i / CURVE, math.exp(-4 * i / CURVE)) for i in range(CURVE + 1)]
    a, b = training.first_loss, training.last_loss
    return [{"step": max(1, round(t * training.steps)), "loss": round(b + (a - b) * part, 4)} for t, part in fall]
