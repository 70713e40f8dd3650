"""What sources say about each other: who is wrong, by how often each two agree."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.profile import Agreement, SourceProfile
from tuneloop.tools.raw_data.contradictions import LEAST_SHARED, contradicted_shares


def source(name: str, disagreeing: float = 0.0, rows: int = 200) -> SourceProfile:
    """With several replies a question where these disagree; 200 rows were looked at."""
    facts: dict[str, Any] = {
        "name": name,
        "rows": rows,
        "sampled": 200,
        "repeated": 1.0 if disagreeing else 0.0,
        "disagreeing": disagreeing,
    }
    return SourceProfile.model_construct(**facts)


def pair(first: str, second: str, agreeing: float, questions: int = 150) -> Agreement:
    """Of sources with 200 different questions each."""
    return Agreement(first=first, second=second, questions=questions, agreeing=agreeing, shared=questions / 200)


def answers(right: float, habit: float, rng: random.Random, count: int = 400) -> list[int]:
    """To questions whose answer is 0: -1 is the one mistake that many make, other wrong ones are all different."""
    return [0 if rng.random() < right else -1 if rng.random() < habit else rng.randint(1, 10**6) for _ in range(count)]


def test_the_source_that_is_wrong_is_told_from_those_that_it_contradicts() -> None:
    found = contradicted_shares(
        [source("receipts"), source("tutors", 0.45), source("letters"), source("numbers")],
        [pair("receipts", "tutors", 0.57), pair("receipts", "letters", 0.7), pair("numbers", "tutors", 0.67)],
    )
    assert found["receipts"] > 0.2
    assert found["tutors"] < 0.05
    assert found["letters"] < 0.1
    assert 0.1 < found["numbers"] < found["receipts"]


@pytest.mark.parametrize("agreeing", [0.0, 0.1, 0.3, 0.5, 0.8])
def test_two_that_contradict_each_other_are_doubted_alike(agreeing: float) -> None:
    for first, second in ("ab", "ba"):
        found = contradicted_shares([source("a"), source("b")], [pair(first, second, agreeing)])
        assert found["a"] == found["b"] > 0.1


def test_copies_do_not_confirm_each_other() -> None:
    found = contradicted_shares([source("a"), source("b"), source("c")], [pair("a", "b", 1.0), pair("a", "c", 0.7)])
    assert "b" not in found
    assert found["a"] == found["c"]


def test_a_copy_of_a_large_source_is_told_from_a_sample_of_it() -> None:
    """Of two copies of 2,000 rows, looked at in different order, a tenth of the questions seen is the same."""
    agreements = [pair("a", "b", 1.0, 20), pair("a", "c", 0.4, 60), pair("b", "c", 0.4, 60)]
    found = contradicted_shares([source("a", rows=2000), source("b", rows=2000), source("c")], agreements)
    assert found["a"] > 0.1


def test_huge_sources_that_share_next_to_nothing_are_no_copies() -> None:
    """Of two million rows a sample of 8,000 says little, and 20 questions in common are chance."""
    rare = Agreement(first="a", second="b", questions=20, agreeing=1.0, shared=20 / 8000)
    agreements = [rare, pair("a", "c", 0.4, 60), pair("b", "c", 0.4, 60)]
    huge = [source(name, rows=2_000_000) for name in ("a", "b")]
    found = contradicted_shares([*huge, source("c")], agreements)
    assert max(found["a"], found["b"]) < 0.1 < found["c"]


def test_two_that_share_a_part_and_always_agree_are_believed_against_a_third() -> None:
    agreements = [pair("a", "b", 1.0, 60), pair("a", "c", 0.4, 60), pair("b", "c", 0.4, 60)]
    found = contradicted_shares([source("a"), source("b"), source("c")], agreements)
    assert found["c"] > 0.3
    assert max(found["a"], found["b"]) < 0.1


def test_who_shares_too_little_is_not_judged() -> None:
    few = pair("a", "b", 0.1, LEAST_SHARED - 1)
    assert contradicted_shares([source("a"), source("b")], [few]) == {}
    assert contradicted_shares([source("a")], [pair("a", "forbidden", 0.1)]) == {}


@given(
    rights=st.lists(st.floats(0.88, 0.98), min_size=3, max_size=5),
    bad=st.floats(0.1, 0.6),
    habit=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_the_bad_one_stands_out_among_good_sources(rights: list[float], bad: float, habit: float, seed: int) -> None:
    rng = random.Random(seed)
    said = {f"good{i}": answers(right, 0.0, rng) for i, right in enumerate(rights)} | {"bad": answers(bad, habit, rng)}
    agreements = [
        pair(a, b, sum(x == y for x, y in zip(said[a], said[b], strict=True)) / 400, 400)
        for a, b in combinations(said, 2)
    ]
    rng.shuffle(agreements)
    found = contradicted_shares([source(name) for name in said], agreements)
    good = [found[name] for name in said if name != "bad"]
    assert found["bad"] > 0.1 + max(good)
    assert found["bad"] == pytest.approx(1 - bad, abs=0.25)
