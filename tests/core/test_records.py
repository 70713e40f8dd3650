"""Records of files in many layouts, and values at paths."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneloop.core.records import pick, records, text_of

ROWS = [{"q": "a", "n": 1}, {"q": "b", "n": 2}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps({"version": 2, "data": {"rows": ROWS}})),
        ("a.json", json.dumps({"x": ROWS[0], "y": ROWS[1]})),
        ("a.json", json.dumps({"q": ["a", "b"], "n": [1, 2]})),
        ("a.json", "\n".join(map(json.dumps, ROWS))),
        ("a.jsonl", "\ufeff" + "\n\n".join(map(json.dumps, ROWS))),
        ("a.csv", "q,n\na,1\nb,2\n"),
        ("a.csv", "q;n\r\na;1\r\nb;2\r\n"),
        ("a.tsv", "q\tn\na\t1\nb\t2\n"),
    ],
)
def test_layouts(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert [(r["q"], int(r["n"])) for r in records(tmp_path / name)] == [("a", 1), ("b", 2)]


def test_parquet_with_nested_values(tmp_path):
    rows = [{"turns": [{"role": "user", "content": "hi"}], "n": 1}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")  # type: ignore[attr-defined]
    assert list(records(tmp_path / "a.parquet")) == rows


def test_a_cell_with_json_is_read(tmp_path):
    (tmp_path / "a.csv").write_text('q,o\nx,"[""a"", ""b""]"\n')
    assert next(records(tmp_path / "a.csv"))["o"] == ["a", "b"]


def test_broken_lines_name_file_and_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"q": 1}\n{broken\n')
    with pytest.raises(ValueError, match=r"a\.jsonl:2"):
        list(records(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("input.text", "x"),
        ("turns[from=gpt].value", "b"),
        ("turns[0].value", "a"),
        ("turns[9].value", None),
        ("choices[]", ["p", "q"]),
        ("nothing.there", None),
        ("long|before|A:", "Q "),
        ("long|after|A:", " z"),
        ("long|after|missing", None),
    ],
)
def test_pick(path, value):
    record = {
        "input": {"text": "x"},
        "turns": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}],
        "choices": ["p", "q"],
        "long": "Q A: z",
    }
    assert pick(record, path) == value


def test_text_of():
    assert [text_of(v) for v in (None, 7.0, ["a"], [], " x ", True)] == ["", "7", "a", "", "x", "True"]
