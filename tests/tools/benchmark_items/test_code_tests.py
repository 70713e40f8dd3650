"""Asserts that are written out become calls, whose values stay outside; the others a program that decides."""

from __future__ import annotations

import json

import pytest

from tuneloop.core.catalog import Calls, Item, Program
from tuneloop.tools.benchmark_items.code_tests import PASSED, calls_from_asserts, calls_from_check
from tuneloop.tools.scoring.code_results import reply_code
from tuneloop.tools.scoring.typed_json import decoded

HEAD = 'from typing import List\n\n\ndef tops(values: List[int]) -> List[int]:\n    """The two largest."""\n'
CHECK = "\n\nMETADATA = {'author': 'x'}\n\n\ndef check(candidate):\n"


def test_asserts_with_values_are_calls() -> None:
    calls, answer = calls_from_asserts(
        "assert pair((1, 2), [3]) == (1, {2, 3})\nassert pair('a', -1.5) == {'k': [b'x', None]}, 'why'",
        "def pair(a, b): pass",
    )
    assert isinstance(calls, Calls)
    assert (calls.entry, calls.typed) == ("pair", True)
    assert decoded(calls.inputs[0]) == [(1, 2), [3]]
    assert decoded(json.loads(answer)["typed"]) == [(1, {2, 3}), {"k": [b"x", None]}]
    assert "k" not in calls.model_dump_json(), "what is right is not in what is run"


@pytest.mark.parametrize(
    ("asserts", "known", "names", "setup"),
    [
        ("assert f(1) == g(2)", "def f(x): pass\ndef g(x): pass", ("f", "g"), ""),
        ("assert set(f([1])) == set([1])", "def f(x): return x", ("f",), ""),
        ("assert math.isclose(f(1), 1.5)", "import math\ndef f(x): pass", ("f",), "import math"),
        (
            "n = Node(1)\nn.left = Node(2)\nassert depth(n) == 2",
            "class Node: pass\ndef depth(n): pass",
            ("Node", "depth"),
            "",
        ),
        ("assert not f(1)", "f = lambda x: 0", ("f",), ""),
        ("assert f(x=1) == 2", "def f(x): pass", ("f",), ""),
        ("assert sum(1, 2) == 3", "def sum(a, b): pass", ("sum",), ""),
        ("assert f(1) == 2\nassert f(2)", "def f(x): pass", ("f",), ""),
    ],
)
def test_other_asserts_are_a_program(asserts: str, known: str, names: tuple[str, ...], setup: str) -> None:
    calls, answer = calls_from_asserts(asserts, known)
    if asserts.startswith("assert sum"):
        assert isinstance(calls, Calls)
        return
    assert calls == Program(program=asserts, names=names, setup=setup)
    assert answer == PASSED


def test_a_check_with_values_is_calls_of_the_entry() -> None:
    body = '    """Easy."""\n    assert candidate([1, 3, 2]) == [3, 2]\n    assert True, "always"\n'
    calls, answer = calls_from_check(CHECK + body, "tops", HEAD)
    assert isinstance(calls, Calls)
    assert (calls.entry, calls.inputs, calls.before) == ("tops", [[[1, 3, 2]]], HEAD)
    assert json.loads(answer) == {"typed": [[3, 2]]}


@pytest.mark.parametrize(
    "body",
    [
        "    assert abs(candidate([1])[0] - 1) < 1e-6\n",
        "    for i in range(3):\n        assert candidate([i]) == [i]\n",
    ],
)
def test_any_other_check_is_a_program(body: str) -> None:
    calls, answer = calls_from_check(CHECK + body, "tops", HEAD)
    assert isinstance(calls, Program)
    assert calls.program.endswith("check(tops)\n")
    assert calls.names == ("tops",)
    assert calls.setup.startswith("from typing")
    assert answer == PASSED


FULL = "def tops(values):\n    return sorted(values)[-2:]"
BODY = "    return sorted(values)[-2:]"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (f"Here:\n```python\n{FULL}\n```", f"{HEAD}\n{FULL}"),
        (FULL, f"{HEAD}\n{FULL}"),
        (BODY, HEAD + BODY),
        (f"\n    \n{BODY}\n\nprint(tops([1]))\n{BODY}", f"{HEAD}\n    \n{BODY}\n\n"),
        (f"<think>    no\n</think>{BODY}", HEAD + BODY),
        ("I cannot.", None),
        ("<think>    return 1", None),
        ("", None),
    ],
)
def test_a_reply_is_a_whole_function_or_goes_on_with_its_head(reply: str, code: str | None) -> None:
    calls, answer = calls_from_check(CHECK + "    assert candidate([1, 3, 2]) == [2, 3]\n", "tops", HEAD)
    assert reply_code(Item(id="x", fields={}, answer=answer, calls=calls), reply) == code


def test_what_is_no_python_is_refused() -> None:
    with pytest.raises(ValueError, match="no Python"):
        calls_from_asserts("assert f(1 == 2", "def f(x): pass")


def test_without_a_head_there_is_nothing_to_go_on_with() -> None:
    calls, answer = calls_from_asserts("assert f(1) == 2", "def f(x): pass")
    assert reply_code(Item(id="x", fields={}, answer=answer, calls=calls), "    return 2") is None
