"""What counts as the answer of a word problem, a contest problem, a puzzle, a question with options."""

from __future__ import annotations

import pytest

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.scoring import answer_matching, scorer, scorer_loader


def found(name: str, gold: str, reply: str) -> tuple[str | None, float]:
    verdict = scorer.judge_reply(Benchmark(name="b", description="d", answer=f"scorer:{name}"), gold, reply)
    assert not verdict["error"]
    return verdict["parsed"], verdict["value"]


@pytest.mark.parametrize(
    ("gold", "reply", "parsed"),
    [
        ("1250", "so it is 1,250.", "1250"),
        ("1250", "#### 1,250\nThat took 3 steps.", "1250"),
        ("5", "It is \\boxed{5}\\text{ m}^2.", "5"),
        ("18", "\\boxed{\\$18.00} for 3 days", "18"),
        ("1250", "\\boxed{1{,}250}", "1250"),
        ("18", "\\boxed{18 \\text{ cm}^2}", "18"),
        ("36", "\\boxed{12 \\cdot 3 = 36}", "36"),
        ("-5", "it falls to -5", "-5"),
        ("5", "\\boxed{} and then 5", "5"),
        ("5", "<think>9</think> 5", "5"),
        ("-5", r"\boxed{- 5}", "-5"),
        ("-5", "so\n#### \u20135", "-5"),
        ("12500", r"\boxed{12 500}", "12500"),
    ],
)
def test_the_final_number(gold: str, reply: str, parsed: str) -> None:
    assert found("final_number", gold, reply) == (parsed, 1)


@pytest.mark.parametrize("reply", ["", "no idea", "<think>5", "five"])
def test_no_number(reply: str) -> None:
    assert found("final_number", "5", reply) == (None, 0)


@pytest.mark.parametrize(
    ("reply", "parsed"),
    [
        ("\\boxed{204}", "204"),
        ("\\boxed{0204}", "204"),
        ("first \\boxed{3}, then \\boxed{m+n=204}", "204"),
        ("\\boxed{204^\\circ}", "204"),
        ("\\boxed{204.5}", None),
        ("\\boxed{204\\text{ units}^2}", "204"),
        ("\\boxed{204 \\quad}", "204"),
        ("\\boxed{204\\pi}", None),
        ("\\boxed{" + " " * 100_000 + "x}", None),
        ("**Answer**: 204", "204"),
        ("The answer is \\textbf{204}.", "204"),
        ("\\boxed{x} so the answer is 204", None),
        ("The final answer is **204**.", "204"),
        ("Answer: $204$", "204"),
        ("The answer is 1,204", None),
        ("The answer is 204.5", None),
        ("The answer is 2041", None),
        ("I guess 204", None),
        ("<think>\\boxed{204}", None),
    ],
)
def test_a_contest_answer_is_a_boxed_or_stated_number_up_to_999(reply: str, parsed: str | None) -> None:
    assert found("contest_integer", "204", reply) == (parsed, float(parsed is not None))


def test_leading_zeros_of_a_contest_answer() -> None:
    assert found("contest_integer", "33", "\\boxed{033}") == ("33", 1)
    assert found("contest_integer", "0", "\\boxed{000}") == ("0", 1)


@pytest.mark.parametrize(
    ("gold", "reply"),
    [
        ("(A)", "So the answer is (A)."),
        ("(A)", "Not (B). So the answer is A."),
        ("(C)", "So the answer is\n(C) Che"),
        ("(C)", "\\boxed{C}"),
        ("(C)", "So the answer is (c)."),
        ("True", "So the answer is **True**."),
        ("True", "the answer is TRUE because not False is True"),
        ("No", "The answer is: No, one ends elsewhere."),
        ("Yes", "yes"),
        ("invalid", "So the answer is invalid."),
        ("8", "The answer is 3 + 5 = 8 (five harps and 3 drums)."),
        ("8", "The answer is 8. There are 3 of them left."),
        ("-26", "So the answer is -26."),
        ("ant bee cat", "So the answer is ant, bee, cat."),
        ("ant bee cat", "The answer is \\boxed{\\text{ant bee cat}}"),
        ("] ] }", "So the answer is `]]}`."),
        ("} >", "\\boxed{\\} >}"),
        ("Monsoon, Inc", "So the answer is Monsoon, Inc."),
        ("(A)", "<think>the answer is (B)</think> So the answer is (A)."),
    ],
)
def test_answers_of_puzzles(gold: str, reply: str) -> None:
    assert found("bbh", gold, reply)[1] == 1


@pytest.mark.parametrize(
    ("gold", "reply", "readable"),
    [
        ("(A)", "So the answer is (B) not (A).", True),
        ("valid", "So the answer is invalid.", True),
        ("True", "So the answer is unknown.", False),
        ("8", "So the answer is 18.", True),
        ("ant bee", "So the answer is bee ant.", True),
        ("] ]", "So the answer is ] ) because of it", False),
        ("(A)", "(A) " + "is what I looked at for long. " * 10, False),
        ("(B)", "So the answer is not (B).", False),
        ("(A)", "So the answer is (A) or (B).", False),
        ("True", "", False),
        ("Yes", "<think>So the answer is Yes.", False),
    ],
)
def test_wrong_and_unreadable_answers_of_puzzles(gold: str, reply: str, readable: bool) -> None:
    parsed, value = found("bbh", gold, reply)
    assert (parsed is not None, value) == (readable, 0)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("答案: B", "B"),
        ("答案是：**C**。", "C"),
        ("根据GDP和CPI，答案是 D", "D"),
        ("选项A错误，选项B正确，故选B。", "B"),
        ("故选B。选项A错误。", "B"),
        ("答案：A\n不，更正。\n答案: B", "B"),
        ("答案是\\boxed{C}", "C"),
        ("因此正确答案应该是选项C，而A错", "C"),
        ("The answer is A, so 答案: B", "B"),
        ("答案不明", None),
    ],
)
def test_letters_in_chinese_replies(reply: str, letter: str | None) -> None:
    assert answer_matching.extract("choice", reply) == letter


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("Thus \\boxed{2.}", "2"), ("\\boxed{x^{2}.}", "x^{2}"), ("\\boxed{2.5}", "2.5"), ("\\boxed{.5}", ".5")],
)
def test_a_full_stop_in_the_box_is_no_part_of_a_formula(reply: str, answer: str) -> None:
    assert scorer_loader.load(scorer.THEIRS / "math_answer.py").stated(reply) == answer
