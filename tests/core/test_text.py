"""Numbers, equations and final answers in texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core import text as t


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("7.0", "7"),
        ("$1,200.50", "1200.5"),
        ("-3", "-3"),
        ("3/4", "0.75"),
        ("50%", "50"),
        ("12 pens", None),
        ("", None),
    ],
)
def test_plain_number(written, plain):
    assert t.plain_number(written) == plain


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("First, 35 + 34 = 69. Then 69-13=56.", [("35 + 34", "69", True), ("69-13", "56", True)]),
        ("2 + 3 * 4 = 14", [("2 + 3 * 4", "14", True)]),
        ("7 x 8 = 54", [("7 x 8", "54", False)]),
        ("$12 + $3 = $15", [("$12 + $3", "15", True)]),
        ("10/3 = 3.33", [("10/3", "3.33", True)]),
        ("5/0 = 1", [("5/0", "1", False)]),
        ("1 + 2 = 3 + 4 = 7", []),
        ("(2 + 3) * 4 = 20 and f(x) = 3", []),
        ("no sums here", []),
    ],
)
def test_equations(text, found):
    assert t.equations(text) == found


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from("+-*"))
def test_true_sums_hold_and_others_do_not(a, b, op):
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    assert [e[2] for e in t.equations(f"so {a} {op} {b} = {value}.")] == [True]
    assert [e[2] for e in t.equations(f"so {a} {op} {b} = {value + 1}.")] == [False]


@pytest.mark.parametrize(
    ("text", "shape", "answer"),
    [
        ("so \\boxed{5} or \\boxed{1{,}2}", "text", "1{,}2"),
        ("He has 3 left.\n#### 1,018", "integer", "1018"),
        ("The answer is 12.5, as 25 / 2 = 12.5", "number", "12.5"),
        ("The answer is 12.5", "integer", None),
        ("Die Antwort ist 8.", "integer", "8"),
        ("B", "letter", "B"),
        ("(c)", "letter", "C"),
        ("The correct answer is (D) because A is wrong", "letter", "D"),
        ("I think that A cat sat. Answer: B) the dog", "letter", "B"),
        ("Category: sports", "text", "Category: sports"),
        ("nothing", "integer", None),
    ],
)
def test_final_answer(text, shape, answer):
    assert t.final_answer(text, shape) == answer


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("BILLING ", "billing"),
        ("Biling", "billing"),
        ("This is about Billing.", "billing"),
        ("Answer: account", "account"),
        ("billing or account", None),
        ("weather", None),
    ],
)
def test_label_in(text, label):
    assert t.label_in(text, ("billing", "account")) == label


@given(st.text())
def test_nothing_breaks_on_any_text(text):
    for shape in ("integer", "number", "letter", "label", "text"):
        t.final_answer(text, shape)
    t.equations(text)
    assert t.normalise(text) == t.normalise(t.normalise(text))


def test_near_duplicates_are_equal_and_signs_are_not():
    assert t.normalise("Tom  has 3 PENS.") == t.normalise("tom has 3 pens")
    assert t.normalise("What is 5 - 3?") == t.normalise("what is 5 - 3")
    assert t.normalise("-3") != t.normalise("3")
    assert t.same_answer("7.0", "$7") and not t.same_answer("7", None)


@pytest.mark.parametrize(
    ("form", "reply"),
    [
        ("Answer: ANSWER.", "Answer: 7."),
        ("ANSWER: ANSWER", "ANSWER: 7"),
        ("[ANSWER_START]ANSWER[ANSWER_END]", "[ANSWER_START]7[ANSWER_END]"),
        ("<ANSWER>ANSWER</ANSWER>", "<ANSWER>7</ANSWER>"),
        ("ANSWER", "7"),
        ("7 it is", "7 it is"),
    ],
)
def test_an_answer_takes_the_last_place(form: str, reply: str) -> None:
    assert t.with_answer(form, "7") == reply
