"""The forecast is right where the truth is known: an engine whose steps cost what a formula says."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.experiment import SMOKE_STEPS, forecast_error_percent
from tuneloop.core.job import Exit
from tuneloop.tools.training.forecast import PADDED, Plan, logged_every, make_forecast, pace_of, step_tokens
from tuneloop.tools.training.smoke_run_rows import smoke_run_rows

BATCH, START, FIRST, EACH, TOKEN, SAVE, GAP = 4, 2.0, 0.5, 0.05, 0.001, 0.1, 0.01
LENGTHS = [random.Random(n).randint(20, 120) for n in range(300)]


def padded(lengths: list[int]) -> int:
    return len(lengths) * PADDED * -(-max(lengths) // PADDED)


def micro_run(lengths: list[int]) -> tuple[dict[str, Any], Exit]:
    """`cost.json` and the end of a smoke run on rows with these lengths; CPU is half of the time."""
    rows = smoke_run_rows(lengths, BATCH, SMOKE_STEPS)
    tokens = [padded([lengths[i] for i in rows[at : at + BATCH]]) for at in range(0, len(rows), BATCH)]
    steps = [(n, (EACH + TOKEN * n) / 2, EACH + TOKEN * n) for n in tokens]
    steps[0] = (steps[0][0], steps[0][1] + FIRST / 2, steps[0][2] + FIRST)
    gaps = GAP * (SMOKE_STEPS - 1)
    whole = START + sum(s[2] for s in steps) + gaps + SAVE
    cost = {
        "whole": [whole / 2, whole],
        "dataset": [0.0, 0.0],
        "steps": steps,
        "between": [gaps / 2, gaps],
        "save": [SAVE / 2, SAVE],
        "lengths": [lengths[i] for i in rows] + lengths,
        "memory": 500,
        "device_memory": {"allocated": 70, "reserved": 90},
    }
    return cost, Exit(code=0, reason="finished", seconds=whole, cpu=whole / 2, peak_memory=900)


def plan(lengths: list[int], steps: int, **changes: Any) -> Plan:
    written = BATCH * SMOKE_STEPS + len(lengths)
    made = Plan(
        steps=steps,
        epochs=1.0,
        batch=BATCH,
        accumulation=1,
        rows=len(lengths),
        written=written,
        sample=len(lengths),
        disk=7,
    )
    return replace(made, **changes)


def real(lengths: list[int], steps: int, saves: int = 0, logs: int = 0) -> float:
    """Seconds of a full run in other orders than the forecast drew."""
    rng, order, total = random.Random(99), list[int](), 0.0
    for _ in range(steps):
        order = order or rng.sample(lengths, len(lengths))
        total += EACH + TOKEN * padded(order[:BATCH])
        order = order[BATCH:]
    return START + FIRST + total + SAVE + saves * SAVE + logs * GAP


@pytest.mark.parametrize("lengths", [LENGTHS, [64] * 50, sorted(LENGTHS) + [900] * 3, [30, 40, 500]])
def test_seconds_and_cpu(lengths: list[int]) -> None:
    found = make_forecast(*micro_run(lengths), plan(lengths, 400, saves=5, logs=50))
    want = real(lengths, 400, 5, 50)
    assert abs(forecast_error_percent(found.seconds, want)) < 6, (found.seconds, want)
    assert abs(forecast_error_percent(found.cpu, want / 2)) < 6
    assert abs(found.seconds_per_step * 400 + found.overhead - found.seconds) < 0.1
    assert (found.memory, found.device_memory, found.disk, found.steps) == (900, 90, 7, 400)


def test_a_short_run_is_mostly_its_start() -> None:
    found = make_forecast(*micro_run(LENGTHS), plan(LENGTHS, 5))
    assert abs(forecast_error_percent(found.seconds, real(LENGTHS, 5))) < 6
    assert found.overhead == pytest.approx(START + FIRST + SAVE, abs=0.1)


def test_reading_more_rows_takes_longer() -> None:
    cost, end = micro_run(LENGTHS)
    cost["dataset"] = [0.5, 1.0]
    few = plan(LENGTHS, 10)
    many = replace(few, rows=11 * few.written)
    more = make_forecast(cost, end, many).seconds - make_forecast(cost, end, replace(few, rows=few.written)).seconds
    assert more == pytest.approx(10, abs=0.1)


def test_evaluations_are_forward_passes() -> None:
    one = make_forecast(*micro_run(LENGTHS), plan(LENGTHS, 100))
    some = make_forecast(*micro_run(LENGTHS), plan(LENGTHS, 100, evaluations=3, evaluated=40, forward=0.5))
    mean = step_tokens(LENGTHS, BATCH, 1) / BATCH
    assert some.seconds - one.seconds == pytest.approx(3 * 40 * mean * TOKEN / 2, rel=0.1)


def test_relaunched_smoke_run_counts_its_first_launch() -> None:
    cost, end = micro_run(LENGTHS)
    again = end.model_copy(update={"seconds": 0.4, "cpu": 0.3})
    assert (
        make_forecast(cost, again, plan(LENGTHS, 100)).seconds == make_forecast(cost, end, plan(LENGTHS, 100)).seconds
    )


def test_accumulated_batches_cost_one_step() -> None:
    assert step_tokens([64] * 40, 4, 5) == 5 * 4 * 64
    assert step_tokens([8, 80] * 20, 4, 1, grouped=True) < 0.7 * step_tokens([8, 80] * 20, 4, 1)


@given(
    st.lists(st.tuples(st.integers(1, 4096), st.floats(0.001, 10)), min_size=1, max_size=SMOKE_STEPS),
    st.integers(1, 9999),
)
def test_a_pace_is_never_worse_than_in_proportion(steps: list[tuple[int, float]], tokens: int) -> None:
    pace = pace_of(steps)
    assert 0 <= pace.slope * pace.tokens <= pace.cost * 1.0001
    assert 0 <= pace.of(tokens) <= pace.cost * max(1.0, tokens / pace.tokens) * 1.0001


def test_logs_of_a_full_run() -> None:
    assert [logged_every(n) for n in (10, 100, 320, 5000)] == [1, 2, 7, 25]
