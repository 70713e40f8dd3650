"""What a split can show, said in advance; whether it is true is simulated in `test_promises.py`."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.compare.worlds import score
from tuneloop.tools.compare import Precision, precision_in, smallest_allowance, smallest_gain
from tuneloop.tools.compare.signs import mcnemar_exact


@settings(deadline=None)
@given(st.integers(1, 600), st.integers(1, 20))
def test_the_smallest_gain_shrinks_with_items_and_grows_with_candidates(n: int, candidates: int) -> None:
    gain = smallest_gain(Precision(n, n), candidates)
    assert 0 < gain <= 100
    assert smallest_gain(Precision(n, n), candidates + 1) >= gain
    assert smallest_gain(Precision(4 * n, 4 * n), candidates) <= gain
    assert smallest_allowance(Precision(4 * n, 4 * n)) <= smallest_allowance(Precision(n, n)) <= 100


def chance_of_acceptance(n: int, loses: float, wins: float, threshold: float) -> float:
    """Counted over everything that can happen to `n` items."""
    total = 0.0
    for differ in range(n + 1):
        seen = math.comb(n, differ) * (loses + wins) ** differ * (1 - loses - wins) ** (n - differ)
        enough = next((w for w in range(differ + 1) if mcnemar_exact(w, differ - w) <= threshold), differ + 1)
        share = wins / (loses + wins)
        rows = (math.comb(differ, w) * share**w * (1 - share) ** (differ - w) for w in range(enough, differ + 1))
        total += seen * sum(rows)
    return total


@pytest.mark.parametrize(("n", "right", "candidates"), [(30, 0.5, 1), (60, 0.1, 10), (100, 0.5, 3), (100, 0.98, 1)])
def test_the_stated_gain_is_accepted_four_times_in_five_and_a_smaller_one_less_often(
    n: int, right: float, candidates: int
) -> None:
    gain = smallest_gain(Precision(n, n, right * (1 - right)), candidates) / 100
    loses, threshold = 0.4 * right * (1 - right), 0.05 / candidates
    assert 0.80 <= chance_of_acceptance(n, loses, loses + gain, threshold) < 0.93
    assert chance_of_acceptance(n, loses, loses + 0.7 * gain, threshold) < 0.75


def test_what_was_measured_counts_instead_of_the_worst() -> None:
    unknown = smallest_gain(Precision(200, 200), 3)
    weak, even = (precision_in(score([1.0] * right + [0.0] * (200 - right))) for right in (4, 100))
    assert smallest_gain(even, 3) == pytest.approx(unknown, rel=0.01)
    assert smallest_gain(weak, 3) < 0.6 * unknown
    assert smallest_gain(precision_in(score([0.0] * 200)), 3) > 0


def test_samples_of_few_problems_show_little() -> None:
    problems = [f"p{i // 8}" for i in range(120)]
    asked_often = precision_in(score([1.0] * 56 + [0.0] * 64, problems))
    assert (asked_often.items, asked_often.units) == (120, 15)
    assert smallest_gain(asked_often, 1) > 1.5 * smallest_gain(precision_in(score([1.0] * 56 + [0.0] * 64)), 1)


@pytest.mark.parametrize(("items", "least", "most"), [(100, 12, 15), (500, 5, 6), (2000, 2, 3)])
def test_a_guard_needs_many_items(items: int, least: float, most: float) -> None:
    assert least < smallest_allowance(Precision(items, items)) < most
