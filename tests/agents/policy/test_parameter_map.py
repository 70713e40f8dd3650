"""How long the first training is: fitted to the time before anything was measured."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.agents.policy.parameter_map import estimate_tokens, fit_steps
from tuneloop.agents.policy.situation import ModelFacts
from tuneloop.core.brief import BudgetLeft
from tuneloop.core.experiment import Throughput, smoke_run_steps

SMOLLM2 = ModelFacts(134_515_008, True, "cpu")


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


@pytest.mark.parametrize("seconds", [0.3, 0.6, 3.0])  # of a batch of two rows of 50 tokens
def test_what_was_measured_on_this_machine_counts_instead_of_a_guess(seconds: float) -> None:
    here = Throughput(
        method="lora",
        device="cpu",
        threads=2,
        rows=2,
        tokens=100,
        seconds=seconds,
        per_token=seconds / 150,
        overhead=60,
    )
    asked = situation(3000.0)
    guessed = fit_steps(asked, 400, 0.0)
    asked.card = replace(SMOLLM2, throughput=here)
    each = here.step_seconds(16, estimate_tokens(asked))
    steps = fit_steps(asked, 400, 0.0)
    possible = 640 / each  # a third of 70 % of the time, less what is no step
    assert steps == max(20, int(possible - smoke_run_steps(int(0.8 * possible))) // 10 * 10)
    assert steps + smoke_run_steps(steps) <= max(25, possible)
    assert (steps > guessed) == (seconds < 1)
    asked.experiment_one = False
    assert fit_steps(asked, 400, 0.0) == max(20, int(possible) // 10 * 10)
    asked.brief.budget = BudgetLeft(experiments_left=1, seconds_left=120)
    assert 60 + fit_steps(asked, 400, 0.0) * each <= 120
