"""What lies on the axes has to show the wanted values, no more and no less."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuneloop.tools.scoring.chart_matching import KINDS, is_chart_right, references
from tuneloop.tools.scoring.code_results import execution_facts, execution_summary, is_readable, judge_results


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_where_it_lies(kind: str) -> None:
    values = [0.5, 0.3, 0.2]
    assert is_chart_right(kind, [values], {KINDS[kind]: [values], "other": [[9.0]]})
    assert not is_chart_right(kind, [values], {KINDS[kind]: [[0.5, 0.2, 0.2]]})


@pytest.mark.parametrize(
    ("wanted", "drawn", "right"),
    [
        ([[1, 2], [3]], [[3.0, 1.0, 2.0]], True),  # order and series are matters of taste
        ([[1, 2, 3]], [[1.0, 2.0]], False),
        ([[1, 2]], [[1.0, 2.0, 2.0]], False),
        ([[1000.0]], [[1000.9]], True),
        ([[1000]], [[1002.0]], False),
        ([[0.123, 0.5]], [[0.12312, 0.5]], True),
        ([[0.12]], [[0.1239]], True),  # half of its last decimal
        ([[0.003, 0.004]], [[0.009, 0.008]], False),  # by 0.01 in all, as the original has it, they would agree
        ([[None, 1]], [[1.0, None]], True),
        ([[None, 1]], [[1.0, 0.0]], False),
        ([[-5]], [[5.0]], False),
    ],
)
def test_numbers_agree_by_their_own_size(wanted: Any, drawn: Any, right: bool) -> None:
    assert is_chart_right("line", wanted, {"lines": drawn}) is right


def test_a_pie_is_shares() -> None:
    assert is_chart_right("pie", [[1, 1, 2]], {"wedges": [[0.25, 0.25, 0.5]]})
    assert not is_chart_right("pie", [[1, 1, 2]], {"wedges": [[0.3, 0.2, 0.5]]})


@pytest.mark.parametrize("series", [5.0, "1", {"a": 1}, [["1"]], [[True]], [[[1]]]])
def test_a_series_that_is_no_list_of_numbers_is_wrong(series: Any) -> None:
    """The original leaves such a series out, and what is left can pass."""
    gold = json.dumps({"chart": "bar", "series": [[1.0]]})
    assert judge_results(gold, [{"value": {"heights": [[1.0]]}}])[1]
    assert not judge_results(gold, [{"value": {"heights": [[1.0], series]}}])[1]


@pytest.mark.parametrize(
    "value", [{}, {"lines": [[1.0]]}, None, 1, "x", {"heights": 1}, {"heights": [[1.0]], "x": 1, "y": None}]
)
def test_whatever_is_said_to_be_drawn_is_judged(value: Any) -> None:
    gold = json.dumps({"chart": "bar", "series": [[1.0]]})
    assert judge_results(gold, [{"value": value}])[1] is (isinstance(value, dict) and value.get("heights") == [[1.0]])


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("y_references = [[1, 2.5], [3]]", [[1, 2.5], [3]]),
        ("import numpy as np\ny_references = [[-1, np.nan, None], (2,)]", [[-1, None, None], [2]]),
        ("y_references = [1, 2]", [[1], [2]]),
        ("y_references = [[1/4, 2 * 3 - 1]]", [[0.25, 5]]),
    ],
)
def test_references_are_read(answer: str, wanted: Any) -> None:
    assert references(answer) == wanted


@pytest.mark.parametrize(
    "answer", ["", "12", "y_references = 3", "y_references = [[]]", "y_references = [[open('x')]]", "y_references = [[1",
               "y = [['a']]", "y_references = [[1/0]]", "y_references = [[True]]"],
)  # fmt: skip
def test_references_are_never_run(answer: str) -> None:
    with pytest.raises(ValueError, match="no "):
        references(answer)


def test_what_was_parsed_and_what_ran_are_counted_over_all() -> None:
    gold = json.dumps({"chart": "bar", "series": [[1.0]]})
    rows = [
        execution_facts(gold, [{"value": {}}], has_code=True),
        execution_facts(gold, [{"error": "NameError"}], has_code=True),
        execution_facts(gold, None, has_code=True),
        execution_facts(gold, None, has_code=False),
    ]
    assert execution_summary(rows) == {"Parse@1": 75, "ECR@1": 25}
    assert execution_summary([execution_facts("[1]", None, has_code=True)]) == {}


@pytest.mark.parametrize("gold", ["[1]", '{"typed": [1]}', '{"chart": "bar", "series": [[1]]}'])
def test_gold_says_what_has_to_be_given(gold: str) -> None:
    assert is_readable(gold)


@pytest.mark.parametrize(
    "gold", ["[]", "{}", '{"typed": []}', '{"chart": "tree", "series": [[1]]}', '{"chart": "bar"}', "3", "x"]
)
def test_other_gold_is_refused(gold: str) -> None:
    assert not is_readable(gold)
