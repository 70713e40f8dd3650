"""Several trainings of one recipe count as their mean, item by item."""

import pytest

from tests.tools.compare.worlds import score
from tuneloop.tools.compare import compare, pooled


def test_every_item_is_the_mean_of_its_seeds() -> None:
    found = pooled([score([1, 1, 0]), score([1, 0, 0])])
    assert [item.value for item in found.items] == [1, 0.5, 0]
    assert [item.correct for item in found.items] == [True, False, False]
    assert found.value == pytest.approx(50)
    assert 0 < found.low < 50 < found.high < 100


def test_one_seed_is_itself() -> None:
    only = score([1, 0])
    assert pooled([only]) is only


def test_a_metric_that_shall_be_small_stays_on_the_right_side() -> None:
    found = pooled([score([1, 1, 1, 0], direction="min", value=25), score([1, 1, 0, 0], direction="min", value=50)])
    assert found.value == pytest.approx(37.5)
    assert found.low < 37.5 < found.high


def test_a_lucky_seed_is_not_accepted() -> None:
    base = score([0.0] * 8 + [1.0] * 8)
    lucky, usual, bad = ([1.0] * 6 + [0.0] * 2 + [1.0] * 8, [0.0] * 8 + [1.0] * 8, [0.0] * 8 + [1.0] * 4 + [0.0] * 4)
    assert compare(score(lucky), base, 1).accepted
    found = compare(pooled([score(values) for values in (lucky, usual, bad)]), base, 1)
    assert not found.accepted
    assert found.seeds == 3
    assert found.p_value > 0.2


def test_parts_and_further_metrics_are_means_too() -> None:
    seeds = [
        score([1, 0], metrics={"f1": f1}, groups={"a": {"value": value, "n": 1, "parsed": 100}})
        for f1, value in ((0.5, 100), (0.7, 0))
    ]
    found = pooled(seeds)
    assert found.metrics["f1"] == pytest.approx(0.6)
    assert (found.groups["a"].value, found.groups["a"].n) == (50, 1)
    assert found.by_seed == (50, 50)


def test_seeds_of_other_items_are_refused() -> None:
    with pytest.raises(ValueError, match="not of the same items"):
        pooled([score([1, 0]), score([1])])
