"""The recipe space: drawn evenly, and what the policy wants lies in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.experiment import Hypothesis, Step

if TYPE_CHECKING:
    from planner.arena import Arena


def test_draws_are_uniform(arena: Arena) -> None:
    from planner.space import RATES, STEPS, STYLES, TURNED

    rng, n = Random(1), 3000
    drawn = [arena.space.draw(rng) for _ in range(n)]
    assert all(RATES[0] <= p.rate <= RATES[1] and STEPS[0] <= p.steps <= STEPS[1] for p in drawn)
    for do in TURNED:
        assert abs(sum(do in p.does for p in drawn) / n - 0.5) < 0.04
    styles = Counter(p.style for p in drawn)
    assert all(abs(styles[style] / n - 1 / len(STYLES)) < 0.04 for style in STYLES)
    below = sum(p.rate < (RATES[0] * RATES[1]) ** 0.5 for p in drawn) / n
    assert abs(below - 0.5) < 0.04
    sets = Counter(p.sources for p in drawn)
    assert len(sets) == 2 ** len(arena.space.sources) - 1
    assert () not in sets


def test_a_point_as_a_hypothesis_is_the_same_point(arena: Arena) -> None:
    rng = Random(2)
    for _ in range(50):
        point = arena.space.draw(rng)
        assert arena.space.point(arena.space.hypothesis(point)) == (point, ())


def test_first_proposal_is_in_the_space(arena: Arena) -> None:
    idea = asyncio.run(OfflinePolicy().answer("researcher", "", arena.brief, arena.tools, Hypothesis))
    point, said = arena.space.point(idea)
    assert said == ()
    again = arena.space.hypothesis(point)
    assert {s.do for s in again.data_plan} == {s.do for s in idea.data_plan}
    assert again.training_plan == idea.training_plan


@pytest.mark.parametrize(("key", "value", "became"), [("max_steps", 9000, "steps"), ("learning_rate", 0.5, "rate")])
def test_out_of_space_recipes_are_moved_and_reported(arena: Arena, key: str, value: float, became: str) -> None:
    from planner.space import RATES, STEPS

    idea = arena.space.hypothesis(arena.space.draw(Random(3)))
    point, said = arena.space.point(idea.model_copy(update={"training_plan": {**idea.training_plan, key: value}}))
    assert getattr(point, became) == {"steps": STEPS, "rate": RATES}[became][1]
    assert any(line.startswith(became) for line in said)


def test_untested_step_counts_are_reported(arena: Arena) -> None:
    idea = arena.space.hypothesis(arena.space.draw(Random(4)))
    plan = (*idea.data_plan, Step(do="translate_to_latin"))
    assert arena.space.point(idea.model_copy(update={"data_plan": plan}))[1] == (
        "translate_to_latin is not in the space",
    )
