"""Agreement with labels: known tables, and kappa against the textbook."""

from __future__ import annotations

import math
from random import Random

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
    assert (found.kappa_high - found.kappa_low) / (2 * 1.959964) == pytest.approx(0.1275, abs=0.004)
    assert found.low < 70 < found.high


def test_all_and_none() -> None:
    assert judge_agreement(pairs(10, 0, 0, 10)).kappa == 1
    assert judge_agreement(pairs(0, 10, 10, 0)).kappa == -1
    assert judge_agreement(pairs(5, 5, 5, 5)).kappa == 0
    same = judge_agreement(pairs(10, 0, 0, 0))
    assert (same.share, *map(math.isnan, (same.kappa, same.kappa_low, same.kappa_high))) == (100, True, True, True)
    with pytest.raises(ValueError, match="no labels"):
        judge_agreement([])


def test_labels_that_all_agree_prove_little_where_they_are_few() -> None:
    few, many = judge_agreement(pairs(1, 0, 0, 1)), judge_agreement(pairs(100, 0, 0, 100))
    assert (few.kappa, few.kappa_high, many.kappa_high) == (1, 1, 1)
    assert few.kappa_low < 0.2 < 0.9 < many.kappa_low < 1


def test_its_interval_holds_what_is_true_of_a_good_judge() -> None:
    """A judge that is right 19 of 20 times about labels of both kinds: kappa is 0.9."""
    rng = Random(1)
    held = 0
    for _ in range(400):
        labels = [rng.random() < 0.5 for _ in range(30)]
        found = judge_agreement([(label, label == (rng.random() < 0.95)) for label in labels])
        held += math.isnan(found.kappa) or found.kappa_low <= 0.9 <= found.kappa_high
    assert held / 400 > 0.92


def test_a_verdict_that_could_not_be_read_counts_as_wrong_and_apart() -> None:
    found = judge_agreement([(True, None), (False, None), (True, True)])
    assert (found.unknown, found.false_incorrect) == (2, 1)
    assert found.share == pytest.approx(200 / 3)
