"""Intervals against known values, and where they have to be careful."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.statistics.intervals import (
    Units,
    difference_bounds,
    group_by_cluster,
    interval,
    mean_bounds,
    wilson,
)

SHARES = st.lists(st.integers(0, 16).map(lambda i: i / 16), min_size=1, max_size=40)


def alone(values: list[float]) -> tuple[float, float]:
    return interval(values, [""] * len(values))


def test_wilson_against_known_values() -> None:
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29
    for k, n, low, high in ((81, 263, 25.53, 36.62), (15, 148, 6.24, 16.05), (0, 20, 0, 16.11), (1, 29, 0.61, 17.18)):
        assert wilson(k, n) == pytest.approx((low, high), abs=0.01)


@settings(deadline=None)
@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_symmetric_and_holds_the_share(pair: tuple[int, int]) -> None:
    k, n = pair
    low, high = wilson(k, n)
    assert 0 <= low <= 100 * k / n + 1e-9
    assert 100 * k / n - 1e-9 <= high <= 100
    assert wilson(n - k, n) == pytest.approx((100 - high, 100 - low))
    assert high - low > wilson(4 * k, 4 * n)[1] - wilson(4 * k, 4 * n)[0]


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_what_is_no_share_is_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(k, n)


def test_right_and_wrong_without_clusters_is_wilsons() -> None:
    assert alone([1.0] * 15 + [0.0] * 133) == pytest.approx(wilson(15, 148))


@settings(deadline=None)
@given(SHARES)
def test_any_values_hold_their_mean_and_mirror(values: list[float]) -> None:
    low, high = alone(values)
    assert 0 <= low <= 100 * sum(values) / len(values) + 1e-6
    assert 100 * sum(values) / len(values) - 1e-6 <= high <= 100
    assert alone([1 - value for value in values]) == pytest.approx((100 - high, 100 - low), abs=1e-4)


def test_one_problem_asked_often_is_one_problem() -> None:
    values = [float(i % 8 < 3 + i // 8 % 3) for i in range(160)]  # each problem is solved three, four or five times
    apart, together = alone(values), interval(values, [f"p{i // 8}" for i in range(160)])
    torn = interval(sorted(values), [f"p{i // 8}" for i in range(160)])  # each problem is solved always or never
    few = alone(sorted(values)[::8])
    assert together[1] - together[0] < apart[1] - apart[0]
    assert torn[1] - torn[0] > 0.9 * (few[1] - few[0]) > 2 * (apart[1] - apart[0])
    assert interval(values, ["one"] * 160) == (0, 100)


def test_zero_score_interval_counts_clusters() -> None:
    low, high = interval([0.0] * 80, [f"p{i // 8}" for i in range(80)])
    assert low == 0
    assert high > wilson(0, 10)[1]


def test_finer_values_tell_more_than_right_and_wrong() -> None:
    rng = random.Random(1)
    graded = [rng.uniform(0.3, 0.7) for _ in range(200)]
    fine, coarse = alone(graded), alone([float(value > 0.5) for value in graded])
    assert fine[1] - fine[0] < (coarse[1] - coarse[0]) / 2


def test_without_items_there_is_no_interval() -> None:
    with pytest.raises(ValueError, match="no items"):
        alone([])


@settings(deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=60))
def test_bounds_of_a_difference_hold_it_and_mirror(differences: list[float]) -> None:
    units = group_by_cluster(differences, [""] * len(differences))
    low, high = difference_bounds(units, 0.025)
    assert -1 <= low <= units.mean + 1e-9
    assert units.mean - 1e-9 <= high <= 1
    assert difference_bounds(units.each(lambda d: -d), 0.025) == pytest.approx((-high, -low))
    assert difference_bounds(units, 0.05)[0] >= low


def test_where_nothing_differed_little_can_be_lost() -> None:
    # Tango 1998: without a pair that differs the 95 % bound of the loss is z^2 / (n + z^2), here with z = 1.645
    low, high = difference_bounds(Units((0.0,) * 200, (1,) * 200), 0.05)
    assert low == pytest.approx(-2.7055 / 202.7055, abs=1e-4)
    assert high == -low


def test_large_clusters_weigh_more() -> None:
    units = Units((4.0, 0.0), (4, 1))
    assert units.mean == 0.8
    assert mean_bounds(units, 0.025)[1] > 0.99
