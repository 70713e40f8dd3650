import json
from typing import Any

import pytest

from tuneloop.tools.scoring.scorers import noc4pc, par4pc, pi4pc

GOLD = json.dumps({"gold": ["A", "G"], "silver": ["C"]})
KEYS = json.dumps({"gold": [9], "silver": [66]})


def row(verdict: dict[str, Any]) -> dict[str, Any]:
    return {**verdict, "error": ""}


@pytest.mark.parametrize(
    ("reply", "parsed", "value"),
    [
        ('{"answer": ["G", "A"]}', "A,G", 1),
        ('```json\n{"answer": "a, g"}\n```', "A,G", 1),
        ('{"reason": "L1 is in \\"answer\\": B", "answer": ["A", "G", "A"]}', "A,G", 1),
        ('{"answer": "A"}', "A", 0),
        ('First {"answer": ["A", "G"]}, no: {"answer": ["B"]}', "B", 0),
        ('<think>{"answer": ["A", "G"]}', None, 0),
        ('<think>{"answer": "B"}</think>{"answer": ["A", "G"]}', "A,G", 1),
        ('{"answer": ["A", "G"', None, 0),
        ('{"answer": ["A", "Z"]}', None, 0),
        ('{"answer": [1]}', None, 0),
        ('{"answer": []}', None, 0),
        ('{"answer": {"A": "G"}}', None, 0),
        ('"answer": ["A", "G"]', None, 0),
        ("", None, 0),
    ],
)
def test_which_patents_a_reply_names(reply: str, parsed: str | None, value: float) -> None:
    verdict = par4pc.judge(GOLD, reply)
    assert (verdict["parsed"], verdict["value"]) == (parsed, value)


def test_the_article_is_no_answer() -> None:
    only_a = json.dumps({"gold": ["A"], "silver": []})
    for reply in ("A cited patent shows this.", "I think A, as a whole, is it.", "Answer: A"):
        assert par4pc.judge(only_a, reply)["parsed"] is None


def test_silver_patents_are_no_mistake_for_the_custom_score() -> None:
    silver, neither = (par4pc.judge(GOLD, f'{{"answer": ["A", "G", "{letter}"]}}') for letter in "CB")
    assert (silver["custom"], neither["custom"]) == (1.0, 0.75)
    assert silver["value"] == 0
    assert par4pc.judge(GOLD, '{"answer": "A"}')["custom"] == 0.25
    assert par4pc.judge(GOLD, '{"answer": "B"}')["custom"] == 0


def test_f1_is_what_its_name_says() -> None:
    one = json.dumps({"gold": ["A"], "silver": []})
    replies = [(one, '{"answer": "A"}'), (GOLD, '{"answer": "A"}'), (one, '{"answer": ["B", "C"]}'), (one, "none")]
    found = par4pc.summary([row(par4pc.judge(gold, reply)) for gold, reply in replies])
    # pooled: 2 hits, 2 wrong, 3 missed; A: 2 of 4, B, C and G: none of theirs; items: 1, 2/3, 0, 0
    assert found["f1_micro"] == pytest.approx(100 * 4 / 9)
    assert found["f1_macro"] == pytest.approx(100 * (4 / 6) / 8)
    assert found["f1_items"] == pytest.approx(100 * (1 + 2 / 3) / 4)
    assert (found["precision_micro"], found["recall_micro"]) == (50, 40)


@pytest.mark.parametrize(
    ("reply", "parsed", "value", "custom"),
    [
        ('{"answer": 9}', "9", 1, 1),
        ('{"answer": "9"}', "9", 1, 1),
        ('{"reason": "of 66 and 9", "answer": 66}', "66", 0, 0.5),
        ('{"answer": 3}', "3", 0, 0),
        ('{"answer": true}', None, 0, 0),
        ('{"answer": 9.0}', None, 0, 0),
        ('{"answer": [9]}', None, 0, 0),
        ("Of the 5 paragraphs it is 9.", None, 0, 0),
    ],
)
def test_which_paragraph_a_reply_names(reply: str, parsed: str | None, value: float, custom: float) -> None:
    verdict = pi4pc.judge(KEYS, reply)
    assert (verdict["parsed"], verdict["value"], verdict["custom"]) == (parsed, value, custom)


def test_three_metrics_of_a_paragraph_differ() -> None:
    rows = [row(pi4pc.judge(KEYS, f'{{"answer": {key}}}')) for key in (9, 66, 3, 4)]
    assert pi4pc.summary(rows) == {"custom_score": 37.5, "gold_or_silver": 50.0}


@pytest.mark.parametrize(
    ("reply", "parsed"),
    [
        ('{"code": "102"}', "102"),
        ('{"code": 102}', "102"),
        ('{"reason": "not ALLOW", "code": "allow"}', "ALLOW"),
        ('{"code": "112"}', None),
        ('{"code": null}', None),
        ("The claim is not allowable; 102.", None),
    ],
)
def test_which_code_a_reply_names(reply: str, parsed: str | None) -> None:
    assert noc4pc.judge("102", reply)["parsed"] == parsed


def test_an_unreadable_code_stays_in_the_denominator() -> None:
    rows = [row(noc4pc.judge(gold, reply)) for gold, reply in (("102", '{"code": "102"}'), ("102", "?"), ("103", "?"))]
    assert sum(one["value"] for one in rows) / len(rows) == pytest.approx(1 / 3)
    assert noc4pc.summary(rows)["f1_macro"] == pytest.approx(100 * (2 / 3) / 3)
