"""What a split can show, said in advance; whether it is true is simulated in `test_promises.py`."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.statistics.worlds import score
from tuneloop.tools.statistics import Paired, Precision, precision_in, smallest_allowance, smallest_gain


@settings(deadline=None)
@given(st.integers(1, 600), st.integers(2, 5))
def test_more_items_show_less(n: int, times: int) -> None:
    few, many = Precision(n, n), Precision(times * n, times * n)
    assert 0 < smallest_gain(many) <= smallest_gain(few) <= 100
    assert 0 < smallest_allowance(many) <= smallest_allowance(few) <= 100


def claimed(n: int, wins: int, losses: int) -> bool:
    """Whether so many items won and lost are claimed."""
    same = [0.0] * (n - wins - losses)
    return Paired([1.0] * wins + [0.0] * losses + same, [0.0] * wins + [1.0] * losses + same, [""] * n).claimed


def chance_of_claim(n: int, loses: float, wins: float) -> float:
    """Counted over everything that can happen to `n` items."""
    total = 0.0
    for differ in range(n + 1):
        seen = math.comb(n, differ) * (loses + wins) ** differ * (1 - loses - wins) ** (n - differ)
        enough = next((w for w in range(differ // 2, differ + 1) if claimed(n, w, differ - w)), differ + 1)
        share = wins / (loses + wins)
        rows = (math.comb(differ, w) * share**w * (1 - share) ** (differ - w) for w in range(enough, differ + 1))
        total += seen * sum(rows)
    return total


@pytest.mark.parametrize(("n", "right"), [(30, 0.5), (60, 0.1), (100, 0.5), (100, 0.98)])
def test_stated_gain_is_claimed_with_80_percent_power(n: int, right: float) -> None:
    gain = smallest_gain(Precision(n, n, right * (1 - right))) / 100
    loses = 0.4 * right * (1 - right)
    assert 0.80 <= chance_of_claim(n, loses, loses + gain) < 0.93
    assert chance_of_claim(n, loses, loses + 0.7 * gain) < 0.75


def test_what_was_measured_counts_instead_of_the_worst() -> None:
    unknown = smallest_gain(Precision(200, 200))
    weak, even = (precision_in(score([1.0] * right + [0.0] * (200 - right))) for right in (4, 100))
    assert smallest_gain(even) == pytest.approx(unknown, rel=0.01)
    assert smallest_gain(weak) < 0.6 * unknown
    assert smallest_gain(precision_in(score([0.0] * 200))) > 0


def test_items_that_agents_do_not_see_count() -> None:
    whole = score([1.0, 0.0] * 100)
    halved = whole.model_copy(update={"items": whole.items[:100], "unseen": whole.items[100:]})
    assert precision_in(halved) == precision_in(whole)
    assert precision_in(halved).items == 200


def test_samples_of_few_problems_show_little() -> None:
    problems = [f"p{i // 8}" for i in range(120)]
    asked_often = precision_in(score([1.0] * 56 + [0.0] * 64, problems))
    assert (asked_often.items, asked_often.units) == (120, 15)
    assert smallest_gain(asked_often) > 1.5 * smallest_gain(precision_in(score([1.0] * 56 + [0.0] * 64)))


@pytest.mark.parametrize(("items", "least", "most"), [(100, 12, 15), (500, 5, 6), (2000, 2, 3)])
def test_a_guard_needs_many_items(items: int, least: float, most: float) -> None:
    assert least < smallest_allowance(Precision(items, items)) < most
