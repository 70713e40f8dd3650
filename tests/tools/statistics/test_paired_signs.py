"""The paired test is exact: every p is counted again by going through all signs."""

import itertools
import math
import random
from itertools import pairwise
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.statistics.paired import WORK, mcnemar_exact, sign_flip, two_sided

SMALL = st.integers(0, 60)
TENTHS = st.integers(-10, 10).map(lambda i: i / 10)


def by_hand(differences: list[float]) -> float:
    """The share of all rows of signs whose sum is as large."""
    sizes, wanted = [abs(d) for d in differences], sum(differences) - 1e-9
    rows = list(itertools.product((-1, 1), repeat=len(sizes)))
    return sum(sum(s * d for s, d in zip(row, sizes, strict=True)) >= wanted for row in rows) / len(rows)


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12))
def test_p_is_the_share_of_coin_rows_that_look_as_good(wins: int, losses: int) -> None:
    n = wins + losses
    rows = sum(bin(row).count("1") >= wins for row in range(2**n)) if n <= 12 else None
    want = rows / 2**n if rows is not None else sum(comb(n, i) for i in range(wins, n + 1)) / 2**n
    assert mcnemar_exact(wins, losses) == pytest.approx(want)


@settings(deadline=None)
@given(SMALL, SMALL)
def test_p_is_symmetric_and_monotone(wins: int, losses: int) -> None:
    p = mcnemar_exact(wins, losses)
    assert 0 < p <= 1
    assert mcnemar_exact(wins + 1, losses) < p or p == 1
    assert mcnemar_exact(wins, losses + 1) > p or p == 1
    same = comb(wins + losses, wins) / 2 ** (wins + losses)
    assert p + mcnemar_exact(losses, wins) == pytest.approx(1 + same)


def test_the_needed_wins_grow_by_about_one_a_halving() -> None:
    needed = [next(w for w in range(100) if mcnemar_exact(w, 0) <= 0.05 / 2**i) for i in range(8)]
    assert needed[0] == 5
    assert all(b - a == 1 for a, b in pairwise(needed))


def test_large_counts_stay_finite() -> None:
    assert 0 < mcnemar_exact(3000, 2900) < 0.2


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(TENTHS, st.sampled_from([1 / 3, -2 / 3, 0.125, -3.0])), max_size=10))
def test_every_sign_is_counted(differences: list[float]) -> None:
    assert sign_flip(differences) == pytest.approx(by_hand(differences))


@settings(deadline=None)
@given(SMALL, SMALL, st.integers(0, 5))
def test_of_right_and_wrong_it_is_mcnemars(wins: int, losses: int, same: int) -> None:
    assert sign_flip([1.0] * wins + [-1.0] * losses + [0.0] * same) == mcnemar_exact(wins, losses)


def test_values_on_no_grid_are_close_to_the_count_of_all_signs() -> None:
    rng = random.Random(1)
    for _ in range(20):
        differences = [rng.uniform(-0.6, 1) for _ in range(12)]
        assert sign_flip(differences) == pytest.approx(by_hand(differences), abs=0.003)


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), max_size=40))
def test_both_directions_are_never_unlikely_at_once(differences: list[float]) -> None:
    there, back = sign_flip(differences), sign_flip([-d for d in differences])
    assert there + back >= 1 - 1e-9
    assert 0 <= min(there, back) <= 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(TENTHS, st.sampled_from([1 / 3, -2 / 3, 0.125])), max_size=10))
def test_two_sided_counts_every_sign_on_both_sides(differences: list[float]) -> None:
    sizes, seen = [abs(d) for d in differences], abs(sum(differences)) - 1e-9
    rows = list(itertools.product((-1, 1), repeat=len(sizes)))
    as_far = sum(abs(sum(s * d for s, d in zip(row, sizes, strict=True))) >= seen for row in rows)
    assert two_sided(differences) == pytest.approx(as_far / len(rows))


@settings(deadline=None)
@given(st.lists(TENTHS, max_size=40))
def test_two_sided_p_is_symmetric_and_at_most_one(differences: list[float]) -> None:
    found = two_sided(differences)
    assert 0 < found <= 1
    assert found == two_sided([-d for d in differences])
    assert found == pytest.approx(min(1.0, 2 * min(sign_flip(differences), sign_flip([-d for d in differences]))))


def test_where_nothing_differs_nothing_is_unlikely() -> None:
    assert two_sided([]) == two_sided([0.0] * 9) == two_sided([1.0, -1.0]) == 1


def test_many_graded_items_are_taken_on_a_coarser_grid() -> None:
    rng = random.Random(2)
    differences = [rng.uniform(-1, 1) for _ in range(3000)]
    assert len(differences) * sum(abs(d) * 2520 for d in differences) > WORK
    p = sign_flip(differences)
    z = sum(differences) / math.sqrt(sum(d * d for d in differences))
    assert p == pytest.approx(math.erfc(z / math.sqrt(2)) / 2, abs=0.005)
