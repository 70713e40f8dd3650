"""Agreement with labels: known tables, and kappa against the textbook."""

from __future__ import annotations

import math

import pytest

from tuneloop.tools.statistics.agreement import judge_agreement


def pairs(both: int, false_correct: int, false_incorrect: int, neither: int) -> list[tuple[bool, bool | None]]:
    return [
        *[(True, True)] * both,
        *[(False, True)] * false_correct,
        *[(True, False)] * false_incorrect,
        *[(False, False)] * neither,
    ]


def test_a_known_table() -> None:
    """35 of 50 agreed: kappa 0.4. Drawing from the table 40000 times gave a standard error of 0.127."""
    found = judge_agreement(pairs(20, 5, 10, 15))
    assert (found.n, found.share, found.false_correct, found.false_incorrect) == (50, 70, 5, 10)
    assert found.kappa == pytest.approx(0.4)
    assert (found.kappa_high - found.kappa_low) / (2 * 1.959964) == pytest.approx(0.1275, abs=0.002)
    assert found.low < 70 < found.high


def test_all_and_none() -> None:
    assert judge_agreement(pairs(10, 0, 0, 10)).kappa == 1
    assert judge_agreement(pairs(0, 10, 10, 0)).kappa == -1
    assert judge_agreement(pairs(5, 5, 5, 5)).kappa == 0
    same = judge_agreement(pairs(10, 0, 0, 0))
    assert (same.share, math.isnan(same.kappa)) == (100, True)
    with pytest.raises(ValueError, match="no labels"):
        judge_agreement([])


def test_a_verdict_that_could_not_be_read_counts_as_wrong_and_apart() -> None:
    found = judge_agreement([(True, None), (False, None), (True, True)])
    assert (found.unknown, found.false_incorrect) == (2, 1)
    assert found.share == pytest.approx(200 / 3)
