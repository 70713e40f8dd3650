import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.experiment import SMOKE_STEPS
from tuneloop.core.job import Exit
from tuneloop.tools.training.smoke_run_rows import LONGEST, check_smoke_run, smoke_run_rows

DONE = Exit(code=0, reason="finished", seconds=5)


def points(*losses: float | None) -> list[dict[str, object]]:
    return [{"current_steps": i, "loss": loss} for i, loss in enumerate(losses, 1)]


def test_the_longest_thrice_then_the_typical() -> None:
    lengths = [5, 100, 6, 7, 90, 1, 8]
    chosen = smoke_run_rows(lengths, 2, 6)
    assert chosen[:6] == [1, 4] * LONGEST
    assert sorted(lengths[i] for i in chosen[6:]) == [1, 5, 6, 8, 90, 100]
    assert smoke_run_rows([1, 3, 2], 1, 1) == [1]
    assert smoke_run_rows([], 4, 10) == []


@given(st.lists(st.integers(1, 500), min_size=1, max_size=60), st.integers(1, 9), st.integers(LONGEST + 1, SMOKE_STEPS))
def test_each_step_has_its_rows_and_typical_ones_are_like_all(lengths: list[int], batch: int, steps: int) -> None:
    chosen = smoke_run_rows(lengths, batch, steps)
    assert len(chosen) == batch * steps
    longest, typical = chosen[:batch], chosen[batch * LONGEST :]
    assert max(lengths) == lengths[longest[0]]
    assert min(lengths[i] for i in longest) >= max([0, *(n for i, n in enumerate(lengths) if i not in longest)])
    times = [typical.count(i) for i in range(len(lengths))]
    assert max(times) - min(times) <= 1
    assert chosen == smoke_run_rows(lengths, batch, steps)


def test_sound_smoke_run() -> None:
    assert check_smoke_run(points(2.5, 2.4, 2.6), DONE) == []
    assert check_smoke_run(points(2.5, None, 2.4), DONE) == []


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
    (found,) = check_smoke_run(points(*losses), DONE)
    assert word in found


def test_a_failed_micro_run() -> None:
    (found,) = check_smoke_run(points(2.0, 1.0), Exit(code=-9, reason="memory", seconds=1))
    assert "memory" in found
