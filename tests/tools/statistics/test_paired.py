"""Two models on the same items: which one is better, by how much, and what may be claimed of it."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.statistics.worlds import score
from tuneloop.tools.statistics import Paired, claim, compare, gain_difference
from tuneloop.tools.statistics.paired import mcnemar_exact

SHARES = st.builds(Fraction, st.integers(0, 12), st.integers(1, 12)).filter(lambda share: share <= 1)
PAIRS = st.lists(st.tuples(SHARES, SHARES, st.sampled_from(["", "", "a", "b"])), min_size=1, max_size=60)
Pairs = list[tuple[Fraction, Fraction, str]]


def paired(pairs: Pairs) -> Paired:
    new, old, clusters = zip(*pairs, strict=True)
    return Paired([float(value) for value in new], [float(value) for value in old], clusters)


def swapped(pairs: Pairs) -> Paired:
    return paired([(old, new, cluster) for new, old, cluster in pairs])


@settings(deadline=None)
@given(PAIRS)
def test_better_is_exactly_a_larger_rational_sum(pairs: Pairs) -> None:
    gained = sum(new - old for new, old, _ in pairs)
    found = paired(pairs)
    assert found.better == (gained > 0)
    assert (found.gain < 0) == (gained < 0)
    assert found.gain == pytest.approx(float(100 * gained / len(pairs)))


@settings(deadline=None)
@given(PAIRS, st.randoms())
def test_a_tie_is_never_better(pairs: Pairs, rng: Any) -> None:
    new = [pair[0] for pair in pairs]
    old = rng.sample(new, len(new))  # the same sum, and often other items
    found = paired([(a, b, cluster) for a, b, (_, _, cluster) in zip(new, old, pairs, strict=True)])
    assert (found.better, found.gain, found.claimed) == (False, 0, False)


@pytest.mark.parametrize("copies", [1, 1000])
def test_rounding_is_neither_gain_nor_loss(copies: int) -> None:
    thirds, whole = [1 / 3, 1 / 3, 1 / 3] * copies, [1.0, 0.0, 0.0] * copies
    for new, old in ((thirds, whole), (whole, thirds)):
        found = Paired(new, old, [""] * len(new))
        assert (found.better, found.gain) == (False, 0)


@settings(deadline=None)
@given(PAIRS)
def test_swapping_both_negates_the_gain_and_mirrors_the_interval(pairs: Pairs) -> None:
    there, back = paired(pairs), swapped(pairs)
    low, high = there.bounds
    assert there.gain == -back.gain
    assert back.bounds == pytest.approx((-high, -low))
    assert there.p_value == pytest.approx(back.p_value)
    assert not (there.better and back.better)
    assert low - 1e-9 <= there.gain <= high + 1e-9


@settings(deadline=None)
@given(PAIRS)
def test_claimed_wants_test_and_interval(pairs: Pairs) -> None:
    found = paired(pairs)
    assert found.claimed == (found.gain > 0 and found.p_value <= 0.05 and found.bounds[0] > 0)


def test_right_and_wrong_are_tested_by_mcnemar_on_both_sides() -> None:
    found = claim(score([1, 1, 1, 0, 0, 1]), score([0, 0, 0, 1, 0, 1]))
    assert (found.wins, found.losses, found.n, found.units) == (3, 1, 6, 6)
    assert found.p_value == 2 * mcnemar_exact(3, 1)
    assert found.better
    assert not found.claimed


def test_test_and_interval_may_disagree_and_then_nothing_is_claimed() -> None:
    found = claim(score([1.0] * 5 + [0.0] * 495), score([0.0] * 500))
    assert found.low > 0
    assert found.p_value == 2**-4
    assert not found.claimed


def test_order_of_items_and_what_agents_see_of_them_do_not_matter() -> None:
    new, old = score([1] * 9 + [0]), score([0] * 10)
    assert compare(new.model_copy(update={"items": new.items[::-1]}), old) == compare(new, old)
    assert compare(new.model_copy(update={"items": new.items[:4], "unseen": new.items[4:]}), old) == compare(new, old)


def test_a_problem_solved_eight_times_is_won_once() -> None:
    problems = [f"p{i // 8}" for i in range(80)]
    new, old = ([1.0] * 32 + [0.0] * 48), [0.0] * 80
    apart, together = claim(score(new), score(old)), claim(score(new, problems), score(old, problems))
    assert apart.claimed
    assert not together.claimed
    assert together.p_value == 2**-3
    assert (together.n, together.units, together.wins) == (80, 10, 32)
    assert (together.gain, together.better) == (apart.gain, True)


def test_difference_of_two_gains_has_combined_interval() -> None:
    one, other = (Paired([1.0] * k + [0.0] * (100 - k), [0.0] * 100, [""] * 100) for k in (30, 10))
    value, low, high = gain_difference(one, other)
    assert value == pytest.approx(20)
    assert 0 < low < 20 < high
    assert gain_difference(other, one) == pytest.approx((-value, -high, -low))
    assert high - low < sum(b[1] - b[0] for b in (one.bounds, other.bounds))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"benchmark": "other"}, "differ in benchmark"),
        ({"split": "test"}, "differ in split"),
        ({"metric": "other"}, "differ in metric"),
        ({"items": ()}, "not of the same items"),
    ],
)
def test_scores_of_other_things_are_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        compare(score([1]), score([1], **changed))
