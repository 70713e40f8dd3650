"""Plain values come back as they were, with their types; nothing else comes through."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.scoring.typed_json import decoded, encoded

KEYS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
VALUES = st.recursive(
    KEYS | st.sets(KEYS, max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_comes_back(value: Any) -> None:
    back = decoded(json.loads(json.dumps(encoded(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)


def test_what_is_no_number_comes_back_too() -> None:
    assert math.isnan(decoded(encoded(math.nan)))
    assert decoded(encoded([-math.inf])) == [-math.inf]


def test_values_of_a_kind_are_that_kind() -> None:
    """As Python's own comparison has them."""
    point = namedtuple("point", "x y")
    assert decoded(encoded(point(1, 2))) == (1, 2)
    assert decoded(encoded([Counter("aab"), OrderedDict(a=1), defaultdict(int, a=1)])) == [
        {"a": 2, "b": 1},
        {"a": 1},
        {"a": 1},
    ]


@pytest.mark.parametrize("value", [object(), iter([1]), len, int, [lambda: 0], {1: object()}])
def test_what_is_no_plain_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encoded(value)


def test_what_is_no_plain_value_may_stay_and_have_a_number() -> None:
    thing = object()
    assert encoded((thing,), lambda one: 7) == {"t": [{"o": 7}]}
    assert decoded({"t": [{"o": 7}]}, {7: thing}.__getitem__) == (thing,)


@pytest.mark.parametrize(
    "data", [{}, {"x": 1}, {"t": [], "s": []}, {"s": [[1]]}, {"b": "zz"}, {"o": 1}, {"d": [[1]]}, {"c": ["a"]}]
)
def test_other_writings_are_refused(data: Any) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        decoded(data)


def test_nesting_has_an_end() -> None:
    value: list[Any] = []
    for _ in range(100):
        value = [value]
    with pytest.raises(RecursionError):
        encoded(value)
