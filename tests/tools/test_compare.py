"""The decision that something improved is exact, paired, and keeps its promise about chance."""

import math
import random
from itertools import pairwise
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.core.score import ItemResult, Score
from tuneloop.tools.compare import compare, mcnemar_exact, smallest_gain, wilson

SMALL = st.integers(0, 60)


def score(right: list[bool], direction: str = "max", **changed: object) -> Score:
    counted = sum(right) if direction == "max" else len(right) - sum(right)
    low, high = wilson(counted, len(right))
    items = tuple(
        ItemResult(id=str(i), prediction="", parsed=None, answer="", correct=value) for i, value in enumerate(right)
    )
    value = 100 * counted / len(right)
    given = {"benchmark": "b", "split": "validation", "metric": "m", "n": len(right), "parsed": 0, "items": items}
    return Score.model_validate({**given, "direction": direction, "value": value, "low": low, "high": high, **changed})


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


def test_large_counts_stay_finite() -> None:
    assert 0 < mcnemar_exact(3000, 2900) < 0.2
    assert math.isfinite(smallest_gain(5000, 10))


@settings(deadline=None)
@given(st.integers(1, 600), st.integers(1, 20))
def test_the_smallest_gain_shrinks_with_items_and_grows_with_candidates(n: int, candidates: int) -> None:
    gain = smallest_gain(n, candidates)
    assert 0 < gain <= 100
    assert smallest_gain(n, candidates + 1) >= gain
    assert smallest_gain(4 * n, candidates) <= gain


@pytest.mark.parametrize(("n", "candidates"), [(50, 1), (200, 1), (200, 3), (500, 10)])
def test_the_smallest_gain_is_just_accepted(n: int, candidates: int) -> None:
    losses = math.ceil(n / 10)
    wins = losses + round(smallest_gain(n, candidates) * n / 100)
    for won, accepted in ((wins, True), (wins - 1, False)):
        old = [True] * losses + [False] * (n - losses)
        new = [False] * losses + [True] * won + [False] * (n - losses - won)
        found = compare(score(new), score(old), candidates)
        assert (found.accepted, found.wins, found.losses) == (accepted, won, losses)
    assert smallest_gain(200, 1) == 6.5


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80), st.sampled_from(["max", "min"]))
def test_gain_follows_the_direction(pairs: list[tuple[bool, bool]], direction: str) -> None:
    new, old = (score([pair[i] for pair in pairs], direction) for i in (0, 1))
    there, back = compare(new, old, 1), compare(old, new, 1)
    assert there.gain == pytest.approx(100 * (there.wins - there.losses) / len(pairs))
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert there.gain == pytest.approx(-back.gain)
    assert not (there.accepted and back.accepted)
    assert there.accepted <= new.better_than(old)


def test_order_of_items_does_not_matter() -> None:
    new = score([True] * 9 + [False])
    old = score([False] * 10)
    assert compare(new.model_copy(update={"items": new.items[::-1]}), old, 1) == compare(new, old, 1)


def test_more_candidates_ask_for_more() -> None:
    new, old = score([True] * 5 + [False] * 95), score([False] * 100)
    assert compare(new, old, 1).accepted
    assert not compare(new, old, 2).accepted
    assert compare(new, old, 2).threshold == 0.025


def test_an_equal_model_is_accepted_in_at_most_one_run_of_twenty() -> None:
    rng, runs, n, candidates = random.Random(1), 2000, 60, 4
    fooled = 0
    for _ in range(runs):
        hard = [rng.random() for _ in range(n)]
        answers = [[rng.random() < chance for chance in hard] for _ in range(candidates + 1)]
        counts = [
            (sum(a and not b for a, b in zip(new, answers[0], strict=True)),
             sum(b and not a for a, b in zip(new, answers[0], strict=True)))
            for new in answers[1:]
        ]  # fmt: skip
        fooled += any(mcnemar_exact(w, x) <= 0.05 / candidates for w, x in counts)
    assert fooled / runs <= 0.05
    assert fooled > 0


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
        compare(score([True]), score([True], **changed), 1)


def test_the_needed_wins_grow_by_about_one_a_halving() -> None:
    needed = [next(w for w in range(100) if mcnemar_exact(w, 0) <= 0.05 / 2**i) for i in range(8)]
    assert needed[0] == 5
    assert all(b - a == 1 for a, b in pairwise(needed))
