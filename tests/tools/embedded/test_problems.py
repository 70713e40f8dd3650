from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.embedded.problems import MORE, TEST, VALIDATION, more_validation, problem, splits, stories
from tuneloop.tools.embedded.words import LIMIT, Step, compute


@given(st.integers())
def test_numbers_are_small_integers_and_steps_hold(seed: int) -> None:
    steps = problem(Random(seed)).steps
    assert 2 <= len(steps) <= 4
    for step in steps:
        assert step.holds
        assert all(0 < n <= LIMIT for n in (step.left, step.right, step.result))


@given(st.integers())
def test_step_operands_are_given_or_computed(seed: int) -> None:
    p = problem(Random(seed))
    known = {int(word) for word in p.question.replace(".", " ").split() if word.isdigit()}
    for step in p.steps:
        assert {step.left, step.right} <= known
        known.add(step.result)


def test_the_splits_share_no_question() -> None:
    s = splits()
    parts = (s.validation, s.test, more_validation(), s.pool)
    groups = [{" ".join(p.question.lower().split()) for p in part} for part in parts]
    assert [len(g) for g in groups[:3]] == [VALIDATION, TEST, MORE]
    assert sum(map(len, groups)) == len(set().union(*groups))


def test_the_splits_are_the_same_in_every_process() -> None:
    fresh = splits.__wrapped__()
    assert fresh == splits()
    assert more_validation.__wrapped__() == more_validation()


def test_stories_are_those_of_the_benchmark() -> None:
    assert len(stories()) == VALIDATION + TEST


def test_a_false_step_does_not_hold() -> None:
    assert not Step(7, "/", 2, 3).holds
    assert not Step(7, "/", 0, 0).holds
    assert not Step(7, "+", 2, 8).holds
    assert compute(7, "*", 2) == 14
