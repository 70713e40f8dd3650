"""The smoke run of a GRPO recipe: a valid config whose steps show what replies cost."""

from __future__ import annotations

from typing import Any

import pytest

from tuneloop.core.job import Exit
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.training.grpo import grpo_forecast

STEP, DRAW, START = 1.0, 12.0, 5.0  # seconds: of a step, of drawing replies, of everything before the first step
CASES = [
    ({}, 3),
    ({"num_iterations": 2}, 3),
    ({"steps_per_generation": 8}, 9),
    ({"steps_per_generation": 8, "num_iterations": 2}, 17),
    ({"steps_per_generation": 8, "max_steps": 8}, 3),
    ({"steps_per_generation": 2, "num_iterations": 2, "gradient_accumulation_steps": 4}, 3),
    ({"per_device_train_batch_size": 4, "steps_per_generation": 2}, 3),
]


def seconds(values: GrpoConfig) -> list[float]:
    """What each step of a training takes."""
    return [STEP + (0 if step % values.period else DRAW) for step in range(values.max_steps)]


@pytest.mark.parametrize(("given", "steps"), CASES)
def test_a_smoke_run_forecasts_the_replies_that_are_drawn(given: dict[str, Any], steps: int) -> None:
    values = GrpoConfig(**given)
    few = values.few()
    assert few == GrpoConfig.model_validate({**values.model_dump(), "max_steps": steps})
    took = seconds(few)
    row = {"step_seconds": sum(took[1:]) / (steps - 1)}
    end = Exit(code=0, reason="finished", seconds=START + sum(took))
    found = grpo_forecast(values, [row] * steps, end, few.replies)
    assert 0 <= found.seconds - START - sum(seconds(values)) <= DRAW


@pytest.mark.parametrize("given", [given for given, _ in CASES])
@pytest.mark.parametrize("batch", [8, 64])
def test_a_smoke_run_of_some_groups_is_valid_too(given: dict[str, Any], batch: int) -> None:
    values = GrpoConfig(**{"per_device_train_batch_size": batch, **given})
    few = values.few(4)
    assert GrpoConfig.model_validate(few.model_dump()) == few
    assert few.replies <= max(32, values.replies) and few.max_steps >= 3
    assert few.num_iterations == values.num_iterations
