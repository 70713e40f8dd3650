import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.job import Exit
from tuneloop.tools.gate.rehearsal import check_rehearsal, rehearsal_rows

DONE = Exit(code=0, reason="finished", seconds=5)


def points(*losses: float | None) -> list[dict[str, object]]:
    return [{"current_steps": i, "loss": loss} for i, loss in enumerate(losses, 1)]


def test_the_longest_and_the_typical() -> None:
    lengths = [5, 100, 6, 7, 90, 1, 8]
    assert rehearsal_rows("abcdefg", lengths, 4) == ["b", "e", "d", "c"] or rehearsal_rows("abcdefg", lengths, 4) == [
        "b",
        "e",
        "d",
        "g",
    ]
    assert rehearsal_rows("abc", [1, 3, 2], 1) == ["b"]
    assert rehearsal_rows([], [], 4) == []
    with pytest.raises(ValueError, match="one a row"):
        rehearsal_rows("ab", [1], 1)


@given(st.lists(st.integers(1, 500), max_size=60), st.integers(1, 40))
def test_rows_are_distinct_and_hold_the_longest(lengths: list[int], count: int) -> None:
    chosen = rehearsal_rows(list(range(len(lengths))), lengths, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(lengths))
    assert not chosen or lengths[chosen[0]] == max(lengths)
    assert chosen == rehearsal_rows(list(range(len(lengths))), lengths, count)


def test_a_sound_rehearsal() -> None:
    assert check_rehearsal(points(2.5, 2.4, 2.6), DONE) == []
    assert check_rehearsal(points(2.5, None, 2.4), DONE) == []


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ((), "no loss"),
        ((2.0, math.nan), "NaN"),
        ((2.0, math.inf), "infinite"),
        ((2.0, 0.0), "exactly 0"),
        ((2.0, 2.0, 2.0), "does not move"),
        ((2.0, 40.0), "rises"),
    ],
)
def test_what_a_log_shows(losses: tuple[float, ...], word: str) -> None:
    (found,) = check_rehearsal(points(*losses), DONE)
    assert word in found


def test_a_failed_micro_run() -> None:
    (found,) = check_rehearsal(points(2.0, 1.0), Exit(code=-9, reason="memory", seconds=1))
    assert "memory" in found
