from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from tuneloop.tools.embedded import messy
from tuneloop.tools.embedded.messy import RawRow, rows_with_key
from tuneloop.tools.embedded.problems import splits
from tuneloop.tools.embedded.words import equation_solution, misread_steps, prose_solution, spoken_solution, step

STEPS = (step(12, "*", 3), step(36, "-", 6))


@pytest.fixture(scope="module")
def rows() -> list[RawRow]:
    return rows_with_key()


def question(raw: RawRow) -> str:
    fields = raw.fields
    match raw.source:
        case "textbook":
            text = fields["problem"]
        case "distilled":
            text = fields["conversation"][0]["value"]
        case "chat":
            text = fields["input"]["text"]
        case _:
            text = fields["q"]
    return " ".join(str(text).lower().split())


def answer(raw: RawRow) -> int:
    fields = raw.fields
    match raw.source:
        case "textbook":
            text = fields["worked_solution"]
        case "distilled":
            text = fields["conversation"][1]["value"]
        case "chat":
            text = fields["output"]["text"]
        case _:
            text = fields["a"]
    return int(re.findall(r"\d+", text)[-1])


def test_the_key_tells_the_truth(rows: list[RawRow]) -> None:
    s = splits()
    true = {" ".join(p.question.lower().split()): p.answer for p in (*s.validation, *s.test, *s.pool)}
    for raw in rows:
        if not raw.key.off_topic:
            assert raw.key.answer == true[question(raw)]
            assert raw.key.wrong == (answer(raw) != raw.key.answer)


def test_the_books_own_key_is_right(rows: list[RawRow]) -> None:
    book = [raw for raw in rows if raw.source == "textbook"]
    assert all(raw.fields["key"] == str(raw.key.answer) for raw in book)
    assert 0.3 < sum(raw.key.wrong for raw in book) / len(book) < 0.6


def test_agreement_finds_the_right_answer_where_there_is_no_key(rows: list[RawRow]) -> None:
    said: dict[str, list[int]] = defaultdict(list)
    truth = {}
    for raw in rows:
        if raw.source == "distilled":
            said[question(raw)].append(answer(raw))
            truth[question(raw)] = raw.key.answer
    agreed = [q for q, answers in said.items() if len(answers) > 2 and len(set(answers)) == 1]
    assert len(agreed) > 200
    assert sum(said[q][0] != truth[q] for q in agreed) < 0.02 * len(agreed)


def test_leaked_rows_are_exactly_the_benchmarks(rows: list[RawRow]) -> None:
    s = splits()
    parts = [{" ".join(p.question.lower().split()) for p in part} for part in (s.validation, s.test)]
    found = {question(raw) for raw in rows if raw.key.leaked}
    assert [len(found & part) for part in parts] == [messy.LEAKED_VALIDATION, messy.LEAKED_TEST]
    assert {question(raw) for raw in rows if question(raw) in parts[0] | parts[1]} == found
    assert not any(raw.key.wrong for raw in rows if raw.key.leaked)


def test_every_defect_is_there(rows: list[RawRow]) -> None:
    counts = Counter(flag for raw in rows for flag, value in vars(raw.key).items() if value is True)
    assert set(counts) == {"wrong", "leaked", "duplicate", "off_topic"}
    assert counts["duplicate"] == messy.COPIES
    assert counts["off_topic"] == messy.OFF_TOPIC
    assert any(str(raw.fields.get("problem", "")).isupper() for raw in rows)


def test_rows_are_the_same_twice(rows: list[RawRow]) -> None:
    assert rows_with_key() == rows


def test_styles() -> None:
    assert prose_solution(STEPS) == "First, 12*3=36. Then, 36-6=30. So the answer is 30."
    assert equation_solution(STEPS) == "12*3=36\n36-6=30\nAnswer: 30"
    assert (
        spoken_solution(STEPS)
        == "We take 12 times 3, which makes 36, and 36 minus 6, which makes 30. I think it is 30."
    )
    assert prose_solution(misread_steps(STEPS)) == "First, 12+3=15. Then, 15-6=9. So the answer is 9."
