"""Sums over batches are what one look at all values would say."""

from __future__ import annotations

import json
import random
import statistics
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuneloop.tools.raw_data.accumulators import DistinctCount, length_stats
from tuneloop.tools.raw_data.column_stats import MOST_COLUMNS, TableCounts
from tuneloop.tools.raw_data.sample import RowSample, bound_value

SCALAR = st.one_of(st.text(max_size=6), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
ROW = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(SCALAR, st.lists(SCALAR, max_size=3), st.dictionaries(st.sampled_from("xy"), SCALAR, max_size=2)),
    max_size=3,
)


def table(rows: list[dict[str, Any]], size: int) -> TableCounts:
    found = TableCounts()
    for start in range(0, len(rows), size):
        found.add(rows[start : start + size])
    return found


def facts(rows: list[dict[str, Any]], path: str, size: int = 3) -> Any:
    found = table(rows, size)
    return found.columns[path].facts(found.places_of(path))


@settings(max_examples=60)
@example(rows=[{"b": 0}, {"b": 1 << 63}, {"b": 0}], size=2)
@given(st.lists(ROW, max_size=12), st.integers(1, 5))
def test_batches_do_not_matter(rows, size) -> None:
    one, many = table(rows, max(1, len(rows))), table(rows, size)
    assert {p: c.facts(one.places_of(p)) for p, c in one.columns.items()} == {
        p: c.facts(many.places_of(p)) for p, c in many.columns.items()
    }
    assert one.distinct.count == many.distinct.count
    plain = {json.dumps({k: v for k, v in r.items() if v is not None}, sort_keys=True) for r in rows}
    for path, column in one.columns.items():
        if path in "abc":
            values = [r[path] for r in rows if path in r]
            assert column.kinds.total() == len(values)
            found = column.facts(one.places_of(path))
            assert found.empty == sum(r.get(path) in (None, "", [], {}) or str(r.get(path)).isspace() for r in rows)
    assert one.distinct.count <= len(plain)


def test_the_facts_of_a_mixed_column() -> None:
    rows: list[dict[str, Any]] = [
        {"a": "text"}, {"a": 3}, {"a": 2.5}, {"a": True}, {"a": None}, {"a": ["x", "y"]}, {"a": {"b": "in"}}, {"a": " "}, {},
    ]  # fmt: skip
    found = facts(rows, "a")
    assert found.kinds == {"text": 2, "integer": 1, "number": 1, "bool": 1, "null": 1, "list": 1, "object": 1}
    assert (found.places, found.empty, found.low, found.high) == (9, 3, 2.5, 3)
    assert facts(rows, "a[]").kinds == {"text": 2}
    assert (facts(rows, "a.b").places, facts(rows, "a.b").empty) == (1, 0)


def test_conversations_and_dotted_names() -> None:
    rows = [{"turns": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "answer"}], "a.b": {"c.d": 1}}] * 4
    found = table(rows, 3)
    assert set(found.columns) == {"turns", "turns[]", "turns[].from", "turns[].value", '"a.b"', '"a.b"."c.d"'}
    values = facts(rows, "turns[].value")
    assert (values.places, values.empty, values.distinct, values.characters.max) == (8, 0, 2, 6)
    assert facts(rows, '"a.b"."c.d"').places == 4
    assert found.rows - found.distinct.count == 3


def test_duplicates_are_found_whatever_the_order_of_the_names() -> None:
    found = table([{"a": 1, "b": "x"}, {"b": "x", "a": 1}, {"a": "x", "b": 1}, {"a": 1.0, "b": "x"}], 2)
    assert found.distinct.count == 3


def test_numbers_written_as_text_have_a_range() -> None:
    found = facts([{"a": "12"}, {"a": ""}, {"a": "-3.5"}], "a")
    assert (found.numeric_text, found.low, found.high) == (True, -3.5, 12)
    assert not facts([{"a": "12"}, {"a": "x"}], "a").numeric_text
    assert facts([{"a": "12"}, {"a": "x"}], "a").low is None


def test_a_range_is_of_numbers_where_some_texts_are_none() -> None:
    rows: list[dict[str, Any]] = [{"a": "-9"}, {"a": 3}, {"a": "none"}, {"a": None}]
    found = [facts(rows, "a", size) for size in (1, 2, 9)]
    assert {(f.low, f.high, f.numeric_text) for f in found} == {(3, 3, False)}
    nulls = facts([{"a": "7"}, {"a": None}, {"a": None}], "a")
    assert (nulls.numeric_text, nulls.low) == (True, 7)


def test_a_range_holds_what_a_float_can() -> None:
    found = facts([{"a": v} for v in (float("nan"), 10**400, 2, float("-inf"), 1.5)], "a", 2)
    assert (found.low, found.high, found.distinct) == (1.5, 2, 5)
    assert facts([{"a": 10**400}], "a").low is None


def test_values_that_hash_alike_in_python_are_different() -> None:
    assert facts([{"a": v} for v in (-1, -2, 1, True, 1.0, "1", 2**70, 0, False)], "a").distinct == 9


def test_columns_without_number_are_bounded() -> None:
    found = table([{f"id{i}": i} for i in range(3 * MOST_COLUMNS)], 50)
    assert len(found.columns) == MOST_COLUMNS
    assert len(found.left_out) == 2 * MOST_COLUMNS


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_lengths_are_exact(n) -> None:
    rng = random.Random(n)
    sizes = [rng.choice([0, 5, 70_000, rng.randrange(100_000)]) for _ in range(n)]
    found = length_stats(sizes)
    if not n:
        assert found is None
        return
    assert found is not None
    ordered = sorted(sizes)
    assert (found.min, found.max, found.n) == (ordered[0], ordered[-1], n)
    assert (found.p50, found.p99) == (ordered[min(n - 1, n // 2)], ordered[min(n - 1, int(0.99 * n))])
    assert found.mean == pytest.approx(statistics.fmean(sizes), abs=0.06)


def test_many_different_values_are_estimated_in_bounded_memory() -> None:
    found, rng = DistinctCount(1 << 12), np.random.default_rng(5)
    values = rng.integers(0, 1 << 64, 300_000, dtype=np.uint64)
    for part in np.array_split(np.concatenate([values, values[:50_000]]), 100):
        found.add(part)
    assert found.count == pytest.approx(300_000, rel=0.08)
    assert not found.exact
    assert len(found._kept) <= 1 << 12


def test_a_sample_is_spread_over_all_rows() -> None:
    sample = RowSample(100)
    for start in range(0, 10_000, 37):
        numbers = range(start, min(10_000, start + 37))
        sample.add("f", numbers, [{"i": i} for i in numbers])
    found = [row["i"] for _, row in sample.rows()]
    assert len(found) == 100
    assert found[0] == 0
    assert max(Counter(i // 1000 for i in found).values()) <= 20
    assert sample.rows(3)[1][0] == f"f:{sample.rows(3)[1][1]['i']}"


def test_what_json_has_not_is_shown_as_text() -> None:
    value = {"f": float("nan"), "b": b"x", "big": 2**80, "half": "\ud800", "long": "x" * 50, "list": list(range(60))}
    found = bound_value(value, 20)
    json.dumps(found, allow_nan=False).encode()
    assert found["long"] == "x" * 20 + "… (50 characters)"
    assert found["list"][-1] == "… (60 elements)"
