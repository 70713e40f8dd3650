import json
from typing import Any

import pytest

from tuneloop.tools.scoring.scorers import tablebench


def judge(gold: str, line: str, metric: str = "em") -> dict[str, Any]:
    return tablebench.judge(json.dumps({"answer": gold, "metric": metric}), f"So.\nFinal Answer: {line}")


@pytest.mark.parametrize(
    ("gold", "line", "value"),
    [
        ("5", "-5", 0),
        ("-5", "−5", 1),
        ("3.14", "3 14", 0),
        ("3.14", "3.14159", 1),
        ("3.14", "3.1", 0),
        ("3.14", "314", 0),
        ("69.75%", "69.75", 0),
        ("69.75%", "69.75 %", 1),
        ("69.75%", "69.75%", 1),
        ("5%", "0.05", 1),
        ("5", "5%", 0),
        ("1,510", "1510", 1),
        ("1510", "$1,510.00", 1),
        ("12", "12 towns", 0),
        ("0.5", ".5", 1),
        ("1e3", "1000", 1),
        ("Adal", "adal.", 1),
        ("Adal", '"Adal"', 1),
        ("Adal, Brin", "Adal,  brin", 1),
        ("Adal, Brin", "Brin, Adal", 0),
        ("Adal, Brin", "Adal", 0),
        ("Adal", "Adal, Brin", 0),
        ("2011,2012", "2011, 2012", 1),
        ("1,200, 1,300", "1200, 1300", 1),
        ("rock 'n' roll", "rock n roll", 0),
    ],
)
def test_exact_match_keeps_sign_decimals_and_percent(gold: str, line: str, value: float) -> None:
    assert judge(gold, line)["value"] == value


@pytest.mark.parametrize(
    ("gold", "line", "value"),
    [
        ("0.98", "0.9", 1),
        ("0.98", "0.85", 0),
        ("-100", "-95", 1),
        ("-100", "95", 0),
        ("0", "0.0", 1),
        ("0", "0.001", 0),
        ("2472.33", "about 2,400 screens", 1),
        ("12 years", "12.5", 1),
        ("100", "between 95 and 100", 0),
        ("50%", "48%", 1),
        ("50%", "48", 0),
        ("Strong positive correlation, 0.98", "strong positive correlation, 0.95", 1),
        ("Strong positive correlation, 0.98", "1, 0.95", 0),
        ("No change", "no change", 1),
    ],
)
def test_ten_percent_are_of_the_number_that_was_asked(gold: str, line: str, value: float) -> None:
    assert judge(gold, line, "em_10")["value"] == value


@pytest.mark.parametrize(
    ("reply", "parsed"),
    [
        ("Final Answer: 5", "5"),
        ("**Final Answer:** 5", "5"),
        ("  final answer : **5**\nBye.", "5"),
        ("Final Answer: 4\nNo.\nFinal Answer: 5", "5"),
        ("The Final Answer: 5", None),
        ("5", None),
        ("Final Answer:", None),
        ("Final Answer:\n5", None),
        ("<think>Final Answer: 5", None),
    ],
)
def test_the_last_announcing_line_counts(reply: str, parsed: str | None) -> None:
    verdict = tablebench.judge(json.dumps({"answer": "5", "metric": "em"}), reply)
    assert (verdict["parsed"], verdict["value"]) == (parsed, float(parsed is not None))


def test_each_item_is_measured_once_by_its_own_metric() -> None:
    rows = [
        judge("5", "5"),
        judge("Adal, Brin", "Adal"),
        judge("100", "95", "em_10"),
        judge("the cat sat", "the cat ran", "rouge_l"),
    ]
    assert [row["value"] for row in rows] == pytest.approx([1, 0, 1, 2 / 3])
    assert tablebench.summary(rows) == pytest.approx(
        {"exact_match": 50, "exact_match_10": 100, "rouge_l": 100 * 2 / 3, "element_match": 100 * 2.5 / 3}
    )


def test_no_number_is_too_long() -> None:
    for line in ("9" * 40 + "e99", "." + "9" * 40, "9" * 5000, "-" + "9" * 40 + "." + "1" * 40 + "%"):
        assert judge("3.14", line)["value"] == 0
        assert judge("3.14", line, "em_10")["value"] == 0
