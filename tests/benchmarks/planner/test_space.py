"""The recipe space: drawn evenly, and what the policy wants lies in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
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


def test_a_point_as_a_hypothesis_is_the_same_point(arena: Arena, letters: Arena, padded: Arena) -> None:
    rng = Random(2)
    for one in (arena, letters, padded):
        for _ in range(50):
            point = one.space.draw(rng)
            assert one.space.point(one.space.hypothesis(point)) == (point, ())


def test_only_letters_have_operations_on_letters(arena: Arena, letters: Arena, padded: Arena) -> None:
    from planner.space import LETTERS_ONLY, TURNED

    assert arena.space.turned == padded.space.turned == TURNED
    assert letters.space.turned == (*TURNED, *LETTERS_ONLY)
    rng, n = Random(1), 400
    drawn = [letters.space.draw(rng) for _ in range(n)]
    assert all(abs(sum(do in p.does for p in drawn) / n - 0.5) < 0.1 for do in LETTERS_ONLY)
    idea = letters.space.hypothesis(drawn[0])
    balanced = idea.model_copy(update={"data_plan": (*idea.data_plan, Step(do="balance_answers"))})
    assert letters.space.point(balanced)[1] == ()
    assert arena.space.point(balanced)[1][-1] == "balance_answers is not in the space"


def test_every_source_of_the_new_families_is_read(letters: Arena, padded: Arena) -> None:
    names = [[s.profile.file for s in one.space.sources] for one in (letters, padded)]
    assert names == [
        ["exam.csv", "panel.jsonl", "tutorials.json", "workbook.jsonl"],
        ["journal.jsonl", "mentors.json", "notes.csv", "results.tsv"],
    ]


def test_first_proposal_is_in_the_space(arena: Arena, letters: Arena, padded: Arena) -> None:
    for one in (arena, letters, padded):
        brief = one.brief.model_copy(update={"directives": one.space.directives})
        idea = asyncio.run(OfflinePolicy().answer("researcher", "", brief, one.tools, Hypothesis))
        point, said = one.space.point(idea)
        assert said == ()
        again = one.space.hypothesis(point)
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


def test_stored_points_name_the_files_of_the_view(padded: Arena) -> None:
    point = padded.space.draw(Random(7))
    name = padded.data.name
    for stored in ("mentors.json", "mentors.json.jsonl"):
        sources = (f"{name}/{stored}", f"{name}/journal.jsonl")
        again = padded.space.renamed(replace(point, sources=sources))
        assert again.sources == (f"{name}/mentors.json", f"{name}/journal.jsonl")
