"""Values are compared as JSON: nothing is equal to something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.scoring.answer_matching import correct, extract, gold
from tuneloop.tools.scoring.code_results import judge_results, same_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_is_itself(value: Any) -> None:
    assert same_value(json.loads(json.dumps(value)), value)
    assert judge_results(json.dumps([value]), [{"value": value}])[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (0, None), ("1", 1), ([], {}), ([1, 2], [2, 1]), ({"a": 1}, {"a": 1, "b": 1}), ("a", "A"),
     (1, 1.1), (10**400, 1.5), ([[]], []), ("", None), (1 << 60, (1 << 60) + 1), ({"no number": "nan"}, 1.0)],
)  # fmt: skip
def test_different_values_are_different(one: Any, other: Any) -> None:
    assert not same_value(one, other)
    assert not same_value(other, one)


def test_numbers_count_by_value() -> None:
    assert same_value(0.1 + 0.2, 0.3)
    assert same_value(2.0, 2)
    assert not same_value(0.3, 0.300001)


def test_all_calls_must_be_right() -> None:
    assert judge_results("[1, 2]", [{"value": 1}, {"value": 2}]) == ("[1, 2]", True)
    assert judge_results("[1, 2]", [{"value": 1}, {"error": "ZeroDivisionError"}]) == ("[1, ZeroDivisionError]", False)
    assert judge_results("[1, 2]", [{"value": 1}]) == ("[1]", False)
    assert judge_results("[1]", None) == (None, False)
    assert judge_results("[1]", []) == ("[]", False)


@pytest.mark.parametrize("results", [{}, 1, "x", [1], [{}], [{"value": 1, "error": "x"}]])
def test_what_are_no_results_is_an_error(results: Any) -> None:
    with pytest.raises(TypeError):
        judge_results("[1]", results)


REPLIES = [
    ("```python\ndef f(): pass\n```", "def f(): pass"),
    ("First:\n```python\nold = 1\n```\nBetter:\n```py\nnew = 1\n```\nDone.", "new = 1"),
    ("```\nx = 1\n```", "x = 1"),
    ("Here:\n```python\ndef f():\n    return 1", "def f():\n    return 1"),
    ("def f():\n    return 1", "def f():\n    return 1"),
    ("<think>```python\nwrong\n```</think>```python\nx = 1\n```", "x = 1"),
    ("I do not know.", None),
    ("```python\n\n```", None),
    ("```bash\nls\n```", None),
    ("```python\nx = 1\n```\nIt prints:\n```text\n1\n```\nThat is it.", "x = 1"),
    ("```python\nx = 1\n```\nIt prints:\n```\n1\n```", "x = 1"),
    ("```bash\npip install y\n```\nThen:\n```python\nx = 1\n```\n", "x = 1"),
    ("```Python title=x.py\r\nx = 1\r\n```\r\nDone.", "x = 1\r"),
    ("```text\n1\n```\nimport this, it is fun", None),
    ("", None),
]


@pytest.mark.parametrize(("reply", "found"), REPLIES)
def test_code_is_found(reply: str, found: str | None) -> None:
    assert extract("code", reply) == found


def test_code_is_never_right_by_its_looks() -> None:
    assert gold("code", "[3,  7]") == "[3, 7]"
    assert not correct("code", "[3, 7]", "```\n[3, 7]\n```")
    assert [gold("code", text) for text in ("[]", "3", "{}", "[", "[" * 10**5)] == [None] * 5
