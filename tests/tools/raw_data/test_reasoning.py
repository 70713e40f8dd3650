"""Words about quality follow from numbers, and the numbers from the rows."""

from __future__ import annotations

from typing import Any

import pytest

from tuneloop.tools.raw_data.column_stats import TableCounts
from tuneloop.tools.raw_data.facts import ReasoningFacts
from tuneloop.tools.raw_data.inspection import column_facts
from tuneloop.tools.raw_data.reasoning import quality_labels, reasoning_facts

STEPS = "First we add both numbers together, which gives a sum; then we check it once more."


def facts(rows: list[dict[str, Any]]) -> ReasoningFacts:
    table = TableCounts()
    table.add(rows)
    return reasoning_facts(rows, {c.path: c for c in column_facts(table, rows, None)})


def test_worked_solutions_with_a_key() -> None:
    rows = [
        {"problem": f"What is {i} + 4?", "solution": f"{STEPS} \\boxed{{{i + (4 if i % 10 else 5)}}}", "answer": str(i + 4)}
        for i in range(100)
    ]  # fmt: skip
    found = facts(rows)
    assert (found.question, found.solution, found.answer) == ("problem", "solution", "answer")
    assert (found.reasoned, found.readable, found.agreeing, found.compared) == (1, 1, 0.9, 100)
    assert (found.baseline_quality, found.polish_difficulty) == ("high", "low")
    assert found.why == "reasoned 1, readable 1, agreeing 0.9, repeated 0: 0.90"
    assert found.characters is not None
    assert 80 < found.characters.p50 < 110


def test_mostly_empty_solutions_as_in_deepscaler() -> None:
    rows = [
        {"problem": f"Find x when x = {i}.", "solution": f"{STEPS} The answer is {i}." if i % 5 == 0 else "", "answer": str(i)}
        for i in range(100)
    ]  # fmt: skip
    found = facts(rows)
    assert (found.reasoned, found.baseline_quality, found.polish_difficulty) == (0.2, "low", "high")


def test_letters_alone_are_no_reasoning_as_in_financeiq() -> None:
    rows = [
        {"Question": f"第{i}题:下列哪项正确?", "A": "甲", "B": "乙", "C": "丙", "D": "丁", "Answer": "ABCD"[i % 4]}
        for i in range(60)
    ]
    found = facts(rows)
    assert (found.question, found.solution) == ("Question", "Answer")
    assert (found.reasoned, found.readable, found.baseline_quality) == (0, 1, "none")
    assert found.scripts == {"han": 100}


@pytest.mark.parametrize(
    "rows",
    [
        [{"instruction": f"Add {i}.", "input": "", "output": f"{STEPS} Answer: {i}"} for i in range(40)],
        [
            {"input": {"text": f"Add {i} and a good many more."}, "output": {"text": f"{STEPS} Answer: {i}"}}
            for i in range(40)
        ],
        [
            {
                "messages": [
                    {"role": "user", "content": f"Add {i}"},
                    {"role": "assistant", "content": f"{STEPS} Answer: {i}"},
                ]
            }
            for i in range(40)
        ],
    ],
)
def test_parts_are_found_by_name_and_role(rows) -> None:
    found = facts(rows)
    assert "in" in found.question or "user" in found.question
    assert "output" in found.solution or "assistant" in found.solution
    assert (found.reasoned, found.readable, found.agreeing) == (1, 1, None)


def test_repeated_questions_lower_the_quality() -> None:
    rows = [{"question": f"What is {i % 25} + 1?", "response": f"{STEPS} Answer: {i % 25 + 1}"} for i in range(100)]
    found = facts(rows)
    assert (found.repeated, found.baseline_quality) == (0.75, "low")


def test_rows_without_texts() -> None:
    found = facts([{"x": i, "y": [1.0, 2.0]} for i in range(10)])
    assert (found.question, found.solution, found.baseline_quality) == ("", "", "none")
    assert facts([]).rows == 0


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((1, 1, None, 0), ("medium", "low")),
        ((1, 0.8, 1, 0), ("medium-high", "medium")),
        ((0.8, 0.8, 0.9, 0), ("medium", "medium")),
        ((0.5, 1, 1, 0), ("medium", "high")),
        ((0.04, 1, 1, 0), ("none", "high")),
    ],
)
def test_the_rule(numbers, words) -> None:
    assert quality_labels(*numbers)[:2] == words
