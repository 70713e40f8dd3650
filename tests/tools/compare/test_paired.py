"""The comparison of two scores: paired by item, counted by cluster, at the candidate's share of 5 %."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.compare.worlds import score
from tuneloop.tools.compare import compare
from tuneloop.tools.compare.signs import mcnemar_exact

VALUES = st.sampled_from([0.0, 0.25, 1.0])


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=80), st.sampled_from(["max", "min"]))
def test_gain_follows_what_is_good(pairs: list[tuple[float, float]], direction: str) -> None:
    new, old = (score([pair[i] for pair in pairs], direction=direction) for i in (0, 1))
    there, back = compare(new, old, 1), compare(old, new, 1)
    assert there.gain == pytest.approx(100 * sum(a - b for a, b in pairs) / len(pairs))
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert there.gain == pytest.approx(-back.gain)
    assert not (there.accepted and back.accepted)
    assert there.low is not None and there.high is not None
    assert there.low <= there.gain + 1e-9 <= there.high + 2e-9


def test_right_and_wrong_are_compared_by_mcnemar() -> None:
    found = compare(score([1, 1, 1, 0, 0, 1]), score([0, 0, 0, 1, 0, 1]), 1)
    assert (found.wins, found.losses, found.n, found.units) == (3, 1, 6, 6)
    assert found.p_value == mcnemar_exact(3, 1)


def test_order_of_items_does_not_matter() -> None:
    new, old = score([1] * 9 + [0]), score([0] * 10)
    assert compare(new.model_copy(update={"items": new.items[::-1]}), old, 1) == compare(new, old, 1)


def test_more_candidates_ask_for_more() -> None:
    new, old = score([1] * 5 + [0] * 95), score([0] * 100)
    assert compare(new, old, 1).accepted
    assert not compare(new, old, 2).accepted
    assert compare(new, old, 2).threshold == 0.025


def test_a_problem_solved_eight_times_is_won_once() -> None:
    problems = [f"p{i // 8}" for i in range(80)]
    new, old = ([1.0] * 32 + [0.0] * 48), [0.0] * 80
    apart, together = compare(score(new), score(old), 1), compare(score(new, problems), score(old, problems), 1)
    assert apart.accepted
    assert not together.accepted
    assert together.p_value == 2**-4
    assert (together.n, together.units, together.wins) == (80, 10, 32)
    assert together.gain == apart.gain


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
        compare(score([1]), score([1], **changed), 1)
