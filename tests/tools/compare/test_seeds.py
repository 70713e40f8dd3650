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
    base = score([0.0] * 40)
    lucky, usual = score([1.0] * 6 + [0.0] * 34), score([0.0] * 40)
    assert compare(lucky, base, 1).accepted
    turned = score([0.0] * 6 + [0.0] * 34)
    assert compare(pooled([lucky, usual, turned]), base.model_copy(), 2).threshold == 0.025


def test_seeds_of_other_items_are_refused() -> None:
    with pytest.raises(ValueError, match="not of the same items"):
        pooled([score([1, 0]), score([1])])
