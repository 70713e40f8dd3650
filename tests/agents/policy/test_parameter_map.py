"""How long the first training is: fitted to the time before anything was measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.agents.policy.parameter_map import fit_steps
from tuneloop.agents.policy.situation import ModelFacts
from tuneloop.core.brief import BudgetLeft

SMOLLM2 = ModelFacts(134_515_008, 8192, True, None, "cpu")


def situation(seconds: float | None) -> Any:
    """A pretrained model on a CPU, rows of about 80 tokens, three experiments that nobody has measured."""
    budget = BudgetLeft(experiments_left=3, seconds_left=seconds)
    lengths = SimpleNamespace(p50=120)
    return SimpleNamespace(
        card=SMOLLM2,
        brief=SimpleNamespace(budget=budget),
        facts=SimpleNamespace(prompt_lengths=lengths),
        sources=[SimpleNamespace(profile=SimpleNamespace(solution_lengths=lengths))],
        experiment_one=True,
    )


@pytest.mark.parametrize("minutes", [5, 10, 15, 50, 120])
def test_a_plan_fits_what_is_left_before_the_first_smoke_run(minutes: int) -> None:
    asked = situation(60.0 * minutes)
    steps = fit_steps(asked, 400, 0.0)
    assert 1 <= steps <= 400
    assert steps * SMOLLM2.seconds_per_step(79) <= 0.61 * 60 * minutes
    assert steps >= fit_steps(situation(30.0 * minutes), 400, 0.0)


def test_without_a_limit_all_steps_are_made_and_a_measured_step_counts_with_one() -> None:
    assert fit_steps(situation(None), 400, 0.0) == 400
    assert fit_steps(situation(900.0), 400, 1.0) == 210
    assert fit_steps(situation(10.0), 400, 60.0) == 1
