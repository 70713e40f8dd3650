"""From what a smoke run cost to what the full run will: time, CPU, memory, disk."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneloop.core.experiment import Forecast
from tuneloop.core.job import Exit
from tuneloop.tools.config.finalize import DECIDED
from tuneloop.tools.training.smoke_run_rows import LONGEST

BATCHES = 200  # so many are drawn to know what a mean one is like
PADDED = 8  # LLaMA-Factory pads a batch to a multiple of it
# An evaluation has no backward pass, which costs twice the forward one; half of that where few weights are trained.
FORWARD, FORWARD_FROZEN = 1 / 3, 1 / 2
WATCHED = 25  # steps; the engine's shim logs at least as often


@dataclass(frozen=True)
class Plan:
    """A full run by its config. `batch` rows at a time, `accumulation` batches a step.

    `rows` of the data, `written` of them as the smoke run was given them (smoke_run ones first, then `sample` rows drawn
    evenly), `saved` bytes of a checkpoint beside those of the model alone.
    """

    steps: int
    epochs: float
    batch: int
    accumulation: int
    rows: int
    written: int
    sample: int
    saves: int = 0
    saved: float = 1.0
    logs: int = 0
    evaluations: int = 0
    evaluated: int = 0
    forward: float = FORWARD
    grouped: bool = False
    disk: int = 0


@dataclass(frozen=True)
class Pace:
    """What a step costs by its padded tokens: `cost` for `tokens` of them, `slope` for each more."""

    tokens: float
    cost: float
    slope: float

    def of(self, tokens: float) -> float:
        """Seconds of a step."""
        return max(0.0, self.cost + self.slope * (tokens - self.tokens))


def make_forecast(cost: Mapping[str, Any], end: Exit, plan: Plan, recipe: str = "") -> Forecast:
    """`cost` is the smoke run's `cost.json`, `end` how its job ended."""
    lengths = cost["lengths"][-plan.sample :] if len(cost["lengths"]) == plan.written else cost["lengths"]
    whole = (max(end.cpu, cost["whole"][0]), max(end.seconds, cost["whole"][1]))
    cpu, seconds = (_time(cost, clock, whole[clock], lengths, plan) for clock in (0, 1))
    device = cost["device_memory"]
    return Forecast(
        seconds=round(sum(seconds), 2),
        cpu=round(sum(cpu), 2),
        memory=max(end.peak_memory, cost["memory"]),
        device_memory=device and device["reserved"],
        steps=plan.steps,
        epochs=plan.epochs,
        seconds_per_step=seconds[0] / max(1, plan.steps),
        overhead=round(seconds[1], 2),
        disk=plan.disk,
        recipe=recipe,
    )


def _time(cost: Mapping[str, Any], clock: int, whole: float, lengths: Sequence[int], plan: Plan) -> tuple[float, float]:
    """Seconds of all steps, and of what is beside them, on one clock (0: CPU, 1: wall)."""
    steps = [(row[0], row[1 + clock]) for row in cost["steps"]]
    pace = pace_of(steps)
    usual = pace.tokens if not lengths else step_tokens(lengths, plan.batch, plan.accumulation, plan.grouped)
    gap = cost["between"][clock] / max(1, len(steps) - 1)
    # The first step's own cost above that of its like is paid once by every run.
    once = whole - sum(seconds for _, seconds in steps[1:]) - pace.of(steps[0][0]) - cost["between"][clock]
    once += cost["dataset"][clock] * (plan.rows / max(1, plan.written) - 1)
    evaluated = plan.evaluated * (usual / max(1, plan.batch * plan.accumulation))
    again = plan.saves * plan.saved * cost["save"][clock] + plan.logs * gap
    again += plan.evaluations * plan.forward * pace.slope * evaluated
    return plan.steps * pace.of(usual), max(0.0, once) + again


def pace_of(steps: Sequence[tuple[float, float]]) -> Pace:
    """From (padded tokens, seconds) of each step: the longest rows first, typical ones then; the very first warms up.

    Of both the cheaper half counts: neighbours on the machine and memory that is touched for the first time only add.
    """
    long, usual = _cheaper(steps[1:LONGEST] or steps[:1]), _cheaper(steps[LONGEST:] or steps[-1:])
    (long_tokens, long_cost), (tokens, cost) = _means(long), _means(usual)
    slope = (long_cost - cost) / (long_tokens - tokens) if long_tokens > tokens else math.inf
    return Pace(tokens, cost, min(max(0.0, slope), cost / max(1.0, tokens)))


def _cheaper(steps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return sorted(steps, key=lambda step: step[1] / max(1.0, step[0]))[: math.ceil(len(steps) / 2)]


def _means(steps: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(t for t, _ in steps) / len(steps), sum(s for _, s in steps) / len(steps)


def step_tokens(lengths: Sequence[int], batch: int, accumulation: int, grouped: bool = False) -> float:
    """Padded tokens of a mean step over epochs of rows with these lengths; `grouped`: like rows are batched together."""
    rng, tokens, steps, seen = random.Random(0), 0, 0, 0
    while seen < BATCHES:
        rows = sorted(lengths) if grouped else rng.sample(lengths, len(lengths))
        batches = [rows[i : i + batch] for i in range(0, len(rows), batch)]
        tokens += sum(len(rows) * PADDED * math.ceil(max(rows) / PADDED) for rows in batches)
        steps += max(1, math.ceil(len(batches) / accumulation))
        seen += len(batches)
    return tokens / steps


def logged_every(steps: int) -> int:
    """Steps between two logged ones of a full run: fifty logs, or more where the engine's shim wants to be watched."""
    return min(WATCHED, max(1, math.ceil(steps * float(DECIDED["logging_steps"]))))
