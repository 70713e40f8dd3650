"""Single rows: found by text, counted by column, compared with each other and with a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuneloop.tools.raw_data.row_queries import column_values, find_duplicates, search_rows, values_at

ROWS = [
    {
        "q": "What is two?",
        "meta": {"source": "a", "tags": ["x", "y"]},
        "turns": [{"value": "Hello"}, {"value": "World"}],
    },
    {"q": "what is  TWO", "meta": {"source": "b", "tags": []}, "turns": [{"value": "hello again"}]},
    {
        "q": "What is two?",
        "meta": {"source": "a", "tags": ["x", "y"]},
        "turns": [{"value": "Hello"}, {"value": "World"}],
    },
    {"q": "What is three?", "meta": {"source": "a", "tags": ["x"]}},
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name, rows in (("a.jsonl", ROWS[:2]), ("b.jsonl", ROWS[2:])):
        (tmp_path / name).write_text("\n\n".join(map(json.dumps, rows)))
    return {name: tmp_path / name for name in ("a.jsonl", "b.jsonl")}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("q", ["What is two?"]),
        ("meta.source", ["a"]),
        ("meta.tags[]", ["x", "y"]),
        ("turns[].value", ["Hello", "World"]),
        ("no.such", []),
    ],
)
def test_values_at_a_path(path, values) -> None:
    assert values_at(ROWS[0], path) == values
    assert values_at({"a.b": {"c": 1}}, '"a.b".c') == [1]


def test_a_column(files) -> None:
    found = column_values(files, "meta.source", 1)
    assert found is not None
    assert (found.facts.kinds, found.facts.distinct, found.top, found.counted) == ({"text": 4}, 2, (("a", 3),), True)
    turns = column_values(files, "turns[].value", 9)
    assert turns is not None
    assert turns.facts.places == 5
    question = column_values(files, "turns", 5)
    assert question is not None
    assert question.facts.empty == 1
    assert column_values(files, "nothing", 5) is None


def test_a_text_is_found_in_any_case(files) -> None:
    hits, total = search_rows(files, "HELLO", "", 1, 1)
    assert total == 3
    assert [(h.where, h.path, h.around) for h in hits] == [("a.jsonl:3", "turns[0].value", "hello again")]
    assert search_rows(files, "hello", "q", 0, 5) == ([], 0)
    assert [h.where for h in search_rows(files, "three", "q", 0, 5)[0]] == ["b.jsonl:3"]


def test_repeats(files) -> None:
    whole = find_duplicates(files, "")
    assert [(r.count, r.where) for r in whole.repeats] == [(2, ("a.jsonl:1", "b.jsonl:1"))]
    assert (whole.compared, whole.whole, whole.repeated) == (4, True, 1)
    asked = find_duplicates(files, "q")
    assert [(r.count, r.where) for r in asked.repeats] == [(3, ("a.jsonl:1", "a.jsonl:3", "b.jsonl:1"))]
    assert find_duplicates(files, "q", most=2).whole is False


def test_numbers_and_truth_are_values_too(tmp_path) -> None:
    (tmp_path / "n.jsonl").write_text('{"id": 7, "ok": true}\n{"id": 7, "ok": false}\n{"id": 17.5, "in": [true]}\n')
    files = {"n.jsonl": tmp_path / "n.jsonl"}
    assert [(r.count, r.shared) for r in find_duplicates(files, "id").repeats] == [(2, "7")]
    assert search_rows(files, "7", "id", 0, 5)[1] == 3
    assert [(h.where, h.path) for h in search_rows(files, "TRUE", "", 0, 5)[0]] == [
        ("n.jsonl:1", "ok"),
        ("n.jsonl:3", "in[0]"),
    ]


def test_rows_nearly_alike_are_counted_beside_repeats(tmp_path) -> None:
    words = (
        "A farmer has 12 cows and buys 7 more cows at the market on Monday, then he walks slowly home with all of them"
    )
    rows = [{"q": words}, {"q": words.replace("slowly ", "")}, {"q": words.replace("12", "13")}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = find_duplicates({"a.jsonl": tmp_path / "a.jsonl"}, "q")
    assert (found.repeated, found.near, found.first_near) == (0, 1, ("a.jsonl:2", "a.jsonl:1"))
