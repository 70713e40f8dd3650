"""Answers are found where people write them, and prose is no answer."""

import ast
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.scoring import answer_matching
from tuneloop.tools.scoring.answer_matching import compiled, correct, extract, gold, render

KINDS = ("boxed", "choice", "number", "exact", r"regex:####\s*(-?\d+)")

BOXED = [
    (r"\boxed{56}", "56"),
    (r"\boxed{1} then \boxed{ 1,000.0 }.", "1000"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{\dfrac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{\text{New  York}}", "New York"),
    (r"\boxed{x + 1}", "x+1"),
    (r"\boxed{007}", "7"),
    (r"\boxed{-0}", "0"),
    (r"\boxed{.50}", "0.5"),
    (r"\boxed{\$1{,}234}", "1234"),
    (r"\boxed{−3}", "-3"),
    (r"\boxed{50\%}", "50"),
    (r"\boxed{12 345}", "12345"),
    (r"\boxed {8}", "8"),
    (r"\boxed{5} and now \boxed{6", "5"),
    (r"\boxed{a \} b}", r"a\}b"),
    (r"\boxed{}", None),
    ("no box, 56", None),
    ("", None),
]

CHOICES = [
    ("B. Paris\n\nExplanation: A is the capital of Italy.", "B"),
    ("B\n\nExplanation: C is only partially true.", "B"),
    ("**B**\n\nWhy: D is a mammal.", "B"),
    ("B: Paris\nNotes: A - Rome", "B"),
    ("B – Paris", "B"),
    ("B (Paris)", "B"),
    ("A (great) story", None),
    ("C) no\nSo: D because it is", "D"),
    ("B", "B"),
    ("(b)", "B"),
    ("Answer: B", "B"),
    ("The answer is (C).", "C"),
    ("**Answer:** D", "D"),
    (r"The correct answer is $\boxed{\text{B}}$.", "B"),
    ("the answer is b.", "B"),
    ("B) Paris, because A great city is in France.", "B"),
    ("A. Dogs are mammals.", "A"),
    ("A cat is an animal, so it is C", "C"),
    ("A cat sat. I think so.", None),
    ("Option A is right", "A"),
    ("A is correct.", "A"),
    ("The answer is not A but B", "B"),
    ("The answer is B, not option C", "B"),
    ("The answer is not B", None),
    ("The answer is **not** B.", None),
    ("Answer: not A", None),
    ("The answer is A or B", None),
    ("The answer is (A) and (B).", None),
    ("The answer is A, C", None),
    ("C, since it is larger", "C"),
    ("A, B and C all fail", None),
    ("The answer is B and I am sure of it.", "B"),
    ("The answer is B and A is too small.", "B"),
    ("The answer is A, B is too small", "A"),
    ("Answer: I think it is C", "C"),
    ("Answer: D\n\nExplanation: Answer A is incorrect, since it is too small.", "D"),
    ("ANSWER: D\nAnswer choice B would be too small.", "D"),
    ("Let us see each answer:\nA. one\nB. two\nSo it is B", "B"),
    ("**Answer:**\nB. two", "B"),
    ("The answer is A at first sight.\n**Final Answer**\n\nB", "B"),
    ("Why not? The answer is B", "B"),
    ("The answer is: Vitamin C", None),
    ("The answer is Vitamin C (option B)", "B"),
    ("The correct choice is C, not A.", "C"),
    ("I choose B over D", "B"),
    ("I choose B. Option A is too large.", "B"),
    ("(A) is wrong. (B) is right", "B"),
    ("Options A, B, C and D all fail", None),
    ("A. one\nB. two\nC. three\nD. four", None),
    ("(A) one (B) two (C) three", None),
    (r"\boxed{\text{B. Vitamin C}}", "B"),
    (r"\boxed{(B) the gene A}", "B"),
    ("答案是：Ｂ", "B"),
    ("答案：B。因为A选项错误", "B"),
    ("答案不是A，而是C", "C"),
    ("答案应为 A。选择B的理由不足", "A"),
    ("Options: (A) x (B) y. I choose A", "A"),
    ("A. one\nB. two\nC. three\nSo C", "C"),
    ("I don't know", None),
    ("We're in the U.S.A. today", None),
    ("", None),
]

NUMBERS = [
    ("The total is 12\u202f500.", "12500"),
    ("12\u00a0500 or 12'500", "12500"),
    (r"12\ 500", "12500"),
    ("The change is \u20135.", "-5"),
    ("x = - 5", "-5"),
    ("3\u20134", "4"),
    ("3 \u2013 4", "4"),
    ("these:\n- 5", "5"),
    ("56", "56"),
    ("3+4=7", "7"),
    ("5-3", "3"),
    ("It is -3", "-3"),
    ("x=−5.", "-5"),
    ("$1,234.50", "1234.5"),
    ("about 50%", "50"),
    ("1,2,3", "3"),
    ("1,2345", "2345"),
    ("so...5", "5"),
    ("1e3", "1000"),
    ("5kg", "5"),
    ("18 cm^2", "18"),
    (r"18\text{ m}^{2}", "18"),
    (r"1{,}250", "1250"),
    (r"$1\,250\,000$", "1250000"),
    ("v2", None),
    ("none", None),
    (".5", "0.5"),
    ("+08", "8"),
    (")-3", "3"),
]

PATTERNS = [
    (r"#### (\d+)", "x #### 1\n#### 22", "22"),
    (r"\d+", "1 and 2", "2"),
    (r"(?i)label: (spam|ham)", "Label: SPAM", "spam"),
    (r"(?<=is )\w+", "it is blue", "blue"),
    (r"#### (\d+)", "12", None),
]


@pytest.mark.parametrize(("reply", "want"), BOXED)
def test_boxed(reply: str, want: str | None) -> None:
    assert extract("boxed", reply) == want


@pytest.mark.parametrize(("reply", "want"), CHOICES)
def test_choice(reply: str, want: str | None) -> None:
    assert extract("choice", reply) == want


@pytest.mark.parametrize(("reply", "want"), NUMBERS)
def test_number(reply: str, want: str | None) -> None:
    assert extract("number", reply) == want


@pytest.mark.parametrize(("pattern", "reply", "want"), PATTERNS)
def test_pattern(pattern: str, reply: str, want: str | None) -> None:
    assert extract(f"regex:{pattern}", reply) == want


def test_exact_keeps_case_and_drops_blanks() -> None:
    assert extract("exact", "  New \n York ") == "New York"
    assert correct("exact", "New York", "New  York\n")
    assert not correct("exact", "New York", "new york")
    assert extract("exact", " \n") is None


@pytest.mark.parametrize("kind", KINDS)
def test_thoughts_are_no_answer(kind: str) -> None:
    wrong, right = {
        "boxed": (r"\boxed{1}", r"\boxed{2}"),
        "choice": ("A", "B"),
        "number": ("1", "2"),
        "exact": ("1", "2"),
    }.get(kind, ("#### 1", "#### 2"))
    answer = {"choice": "B"}.get(kind, "2")
    assert correct(kind, answer, f"<think>{wrong}</think>\n{right}")
    assert correct(kind, answer, f"{wrong}</think>{right}")
    assert extract(kind, f"<think>still {right}") is None


@pytest.mark.parametrize(
    ("kind", "answer", "want"),
    [
        ("boxed", "1,000", "1000"),
        ("boxed", r"\boxed{7}", "7"),
        ("boxed", "}", None),
        ("boxed", "", None),
        ("choice", "(b)", "B"),
        ("choice", "Paris", None),
        ("number", "12 apples", None),
        ("number", "1/2", None),
        ("number", "$12.50", "12.5"),
        ("exact", " a  b ", "a b"),
        (r"regex:#### (\d+)", "12", "12"),
        (r"regex:#### (\d+)", "#### 12", "12"),
        (r"regex:#### (\d+)", "twelve", None),
        (r"regex:(?i)^(yes|no)\b", "Yes", "yes"),
        (r"regex:(?:is|was) (?P<colour>red|blue)", "green", None),
        (r"regex:(?:is|was) (?P<colour>red|blue)", "blue", "blue"),
        (r"regex:\d+", "x", None),
        (r"regex:(?<=is )\w+", "blue", "blue"),
        (r"regex:[(](\w+)[)]", "yes", "yes"),
    ],
)
def test_gold(kind: str, answer: str, want: str | None) -> None:
    assert gold(kind, answer) == want


def test_ignored_case_is_ignored_on_both_sides() -> None:
    assert correct(r"regex:(?i)answer: (yes|no)", "Yes", "ANSWER: YES")
    assert not correct(r"regex:answer: ([Yy]es|no)", "Yes", "answer: yes")


@pytest.mark.parametrize("pattern", ["(a+)+", r"(?:\w+\s?)+x", "((ab)*c*){2,}", r"(x|(y*))*"])
def test_patterns_that_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="take for ever"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", [r"(a+)b+", r"[(*+]+\)+", r"(?:\d{1,3},)+\d", r"(\d+)(?:\.\d+)?", "(ab)+"])
def test_harmless_patterns_are_accepted(pattern: str) -> None:
    assert compiled(pattern).pattern == pattern


def test_a_broken_pattern_is_named() -> None:
    with pytest.raises(ValueError, match=r"'\(' is no regular expression"):
        compiled("(")


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.text())
def test_any_text_is_read_or_not_and_never_an_error(kind: str, text: str) -> None:
    found = extract(kind, text)
    assert found is None or found


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.text(alphabet="ab 0123456789,.-+\\{}$%box()AB#e\n"))
def test_what_was_read_is_its_own_gold(kind: str, text: str) -> None:
    found = extract(kind, text)
    if found is not None:
        assert gold(kind, found) == found


@settings(deadline=None)
@given(st.integers(), st.booleans())
def test_integers_in_any_dress(value: int, commas: bool) -> None:
    dressed = f"{value:,}" if commas else str(value)
    assert correct("number", str(value), f"So it is {dressed}.")
    assert correct("boxed", str(value), f"So it is \\boxed{{ {dressed}.0 }}.")
    assert not correct("number", str(value), f"So it is {value + 1}.")


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_decimals(value: float) -> None:
    assert correct("number", f"{value:.6f}", f"= {value:.8f}") == (float(f"{value:.6f}") == float(f"{value:.8f}"))


@settings(deadline=None)
@given(st.text(), st.text())
def test_render_replaces_once_and_only_fields(prompt: str, other: str) -> None:
    text = render(r"{prompt}|{missing}|\boxed{answer}|{{other}}|{other}", {"prompt": prompt, "other": other})
    assert text == rf"{prompt}|{{missing}}|\boxed{{answer}}|{{{other}}}|{other}"


@pytest.mark.parametrize(
    "text",
    [r"\boxed{" * 20_000, "{" * 50_000, "answer " * 10_000, "A " * 20_000, "1," * 30_000, "(" * 50_000, " " * 80_000],
)
def test_degenerate_replies_cost_little(text: str) -> None:
    start = time.process_time()
    for kind in KINDS:
        extract(kind, text)
    assert time.process_time() - start < 20


def test_only_the_standard_library_is_imported() -> None:
    tree = ast.parse(Path(answer_matching.__file__).read_text())
    modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)} | {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    assert {m.split(".")[0] for m in modules if m} <= set(sys.stdlib_module_names)
