"""Rows of every format, packing and encoding come back as they were written; what is broken is counted and shown."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneloop.core.records import encoding_of, kind_of, records
from tuneloop.tools.raw_data import reader as lines_module
from tuneloop.tools.raw_data.reader import RawFile

pa: Any = pyarrow


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as f:
        f.write(data)
    return bytes(out.getvalue().to_pybytes())


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32")
# What a table can carry: no line of its own that is empty, no half of a surrogate pair.
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
CELL = TEXT.filter(lambda t: t[:1] + t[-1:] not in ("[]", "{}"))
VALUE = st.one_of(
    TEXT, st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
)
ROW = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(VALUE, st.lists(VALUE, max_size=3), st.dictionaries(TEXT, VALUE, max_size=2)),
    min_size=1,
)


def read(path: Path) -> list[dict[str, Any]]:
    file = RawFile(path)
    found = [row for _, rows in file.batches() for row in rows]
    assert file.read_error == ""
    assert file.rows == len(found)
    return found


def table(rows: list[dict[str, str]], separator: str) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["first", "second"], delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ROW, min_size=1, max_size=8),
    st.sampled_from(sorted(PACK)),
    st.sampled_from(ENCODINGS),
    st.sampled_from(["jsonl", "json", "ndjson"]),
)
def test_json_comes_back(tmp_path, rows, packing, encoding, kind) -> None:
    text = json.dumps(rows) if kind == "json" else "\n".join(map(json.dumps, rows))
    path = tmp_path / f"a.{kind}{packing}"
    path.write_bytes(PACK[packing](text.encode(encoding)))
    assert read(path) == rows
    assert list(records(path)) == rows


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.fixed_dictionaries({"first": CELL, "second": CELL}), min_size=1, max_size=8),
    st.sampled_from(sorted(PACK)),
    st.sampled_from(ENCODINGS),
    st.sampled_from([("csv", ","), ("csv", ";"), ("tsv", "\t")]),
)
def test_tables_come_back(tmp_path, rows, packing, encoding, kind) -> None:
    path = tmp_path / f"a.{kind[0]}{packing}"
    path.write_bytes(PACK[packing](table(rows, kind[1]).encode(encoding)))
    assert read(path) == rows
    assert list(records(path)) == rows


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "t": TEXT,
                "n": st.integers(0, 9),
                "l": st.lists(TEXT, max_size=3),
                "o": st.fixed_dictionaries({"x": TEXT}),
            }
        ),
        min_size=1,
        max_size=8,
    )
)
def test_columns_come_back(tmp_path, rows) -> None:
    batch = pa.Table.from_pylist(rows)
    pq.write_table(batch, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as f, pa.ipc.new_file(f, batch.schema) as writer:
        writer.write_table(batch)
    with pa.OSFile(str(tmp_path / "stream.arrow"), "wb") as f, pa.ipc.new_stream(f, batch.schema) as writer:
        writer.write_table(batch)
    for name in ("a.parquet", "file.arrow", "stream.arrow"):
        assert read(tmp_path / name) == rows


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("Zürich, naïve café, señor", "latin-1", "latin-1"),
        ("naïve “café”", "cp1252", "cp1252"),
        ("计算三角形的面积,答案是 42。", "gb18030", "gb18030"),
        ("计算三角形的面积", "utf-8", "utf-8"),
        ("plain words only", "utf-16-le", "utf-16-le"),
        ("plain words only", "utf-16-be", "utf-16-be"),
        ("plain", "ascii", "utf-8"),
        ("", "ascii", "utf-8"),
    ],
)
def test_encodings_are_told_by_the_stated_rule(tmp_path, text, encoding, found) -> None:
    assert encoding_of(text.encode(encoding)) == found
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        "".join(json.dumps({"t": text, "i": i}, ensure_ascii=False) + "\n" for i in range(50)).encode(encoding)
    )
    assert [r["t"] for r in read(path)] == [text] * 50


def test_one_bad_byte_breaks_its_line_and_no_other(tmp_path) -> None:
    good = "".join(json.dumps({"t": "计算", "i": i}, ensure_ascii=False) + "\n" for i in range(20)).encode()
    (tmp_path / "a.jsonl").write_bytes(good + b'{"t": "\xff"}\n' + good)
    file = RawFile(tmp_path / "a.jsonl")
    assert sum(len(rows) for _, rows in file.batches()) == 40
    assert (file.broken, file.shown[0].line) == (1, 21)
    assert "no text" in file.shown[0].why


def test_broken_lines_are_counted_and_the_first_are_shown(tmp_path) -> None:
    lines = ['{"a": 1}', "", "{broken", "[1, 2]", '{"a": NaN}', '{"a": 2}', "null", '{"a": "\\ud800"}', "{", "{", "{"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    file = RawFile(tmp_path / "a.jsonl")
    found = [(n, r) for numbers, rows in file.batches() for n, r in zip(numbers, rows, strict=True)]
    assert [n for n, _ in found] == [1, 5, 6, 8]
    assert math.isnan(found[1][1]["a"])
    assert file.broken == 6
    assert [b.line for b in file.shown] == [3, 4, 7, 9, 10]
    assert file.shown[1].why == "a list, no object"
    assert file.shown[0].text == "{broken"


def test_rows_with_other_cells_than_the_header_are_read_and_named(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n4,5,6\n\n7,8\n")
    file = RawFile(tmp_path / "a.csv")
    assert [row for _, rows in file.batches() for row in rows] == [
        {"a": "1", "b": "2"}, {"a": "3"}, {"a": "4", "b": "5"}, {"a": "7", "b": "8"},
    ]  # fmt: skip
    assert [(b.line, b.why) for b in file.shown] == [(3, "1 cells, the header has 2"), (4, "3 cells, the header has 2")]


def test_a_huge_line_is_left_out_and_memory_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST", 1 << 16)
    huge = json.dumps({"t": "x" * (1 << 18)})
    (tmp_path / "a.jsonl").write_text('{"i": 1}\n' + huge + '\n{"i": 3}\n{"i": 4}\n' + huge)
    file = RawFile(tmp_path / "a.jsonl")
    found = [(n, r["i"]) for numbers, rows in file.batches() for n, r in zip(numbers, rows, strict=True)]
    assert found == [(1, 1), (3, 3), (4, 4)]
    assert [(b.line, "not read" in b.why) for b in file.shown] == [(2, True), (5, True)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.text("ab,é\r", max_size=9), max_size=30), st.booleans(), st.integers(1, 20), st.integers(1, 6))
def test_blocks_hold_every_line_once(tmp_path, texts, ended, size, most) -> None:
    whole = "\n".join(texts).encode() + b"\n" * ended
    (tmp_path / "a.jsonl").write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK", size)
        patch.setattr(lines_module, "MOST", most)
        found = list(lines_module.line_blocks(tmp_path / "a.jsonl", lambda *_: None))
    assert b"".join(line for _, lines in found for line in lines) == whole
    assert [line for _, lines in found for line in lines] == whole.splitlines(keepends=True)
    assert [first for first, _ in found] == [1 + sum(len(lines) for _, lines in found[:i]) for i in range(len(found))]
    assert all(len(lines) <= most and sum(map(len, lines[:-1])) < size for _, lines in found)


@pytest.mark.parametrize(
    ("name", "content", "rows", "says"),
    [
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 200_000)[:-200], None, "reading stopped"),
        ("a.parquet", b"PAR1 no table", 0, "reading stopped"),
        ("a.arrow", b"ARROW1 nothing", 0, "reading stopped"),
        ("a.json", b'[{"a": 1}, {"a": ', 1, "reading stopped"),
        ("a.json", b'{"a": [{"x": 1}, {"x": 2}]}', 2, ""),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', 2, ""),
        ("a.json", b"", 0, ""),
        ("a.jsonl", b"", 0, ""),
        ("a.csv", b"", 0, ""),
        ("a.csv", b"only,a,header\n", 0, ""),
        ("a.txt", b"one\n\ntwo\n", 2, ""),
        ("a.jsonl.gz", b'{"a": 1}\n', 1, ""),
        ("a.json", b'"text"', 0, ""),
    ],
)  # fmt: skip
def test_a_file_is_read_as_far_as_it_goes(tmp_path, name, content, rows, says) -> None:
    (tmp_path / name).write_bytes(content)
    file = RawFile(tmp_path / name)
    found = sum(len(batch) for _, batch in file.batches())
    assert found == rows if rows is not None else 0 < found < 200_000
    assert file.read_error.startswith(says) if says else file.read_error == ""


SAID = ['"Movie 10 was fine' if i == 10 else f"Movie {i} was fine" for i in range(40)]
GLUE = "q\ta\n" + "".join(f"{said}\t{i}\n" for i, said in enumerate(SAID))


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.json", '{"data": [{"q": 1}, {"q": 2}, {"q": 3}]}\n', [{"q": 1}, {"q": 2}, {"q": 3}]),
        ("a.json", '{"q": ["a", "b"], "a": [1, 2]}\n', [{"q": "a", "a": 1}, {"q": "b", "a": 2}]),
        ("a.json", '{"q": "a"}\n{"q": "b"}\n', [{"q": "a"}, {"q": "b"}]),
        ("a.txt", "one\rtwo\r\nthree\r", [{"text": "one"}, {"text": "two"}, {"text": "three"}]),
        ("a.jsonl", '{"q": 1}\r{"q": 2}\r\n{"q": 3}', [{"q": 1}, {"q": 2}, {"q": 3}]),
        ("a.csv", "q,a\r1,2\r3,4\r", [{"q": "1", "a": "2"}, {"q": "3", "a": "4"}]),
        ("a.csv", '"a, b, and c";answer\n1;2', [{"a, b, and c": "1", "answer": "2"}]),
        ("a.csv", "sep=;\nq;a\n1,5;2", [{"q": "1,5", "a": "2"}]),
        ("a.csv", "\n \nq,a\n\n1,2\n", [{"q": "1", "a": "2"}]),
        ("a.csv", "\n\n", []),
        ("a.tsv", GLUE, [{"q": said, "a": str(i)} for i, said in enumerate(SAID)]),
        ("a.tsv", 'q\ta\n"two\nlines"\t1\n"a\ttab"\t2\n', [{"q": "two\nlines", "a": "1"}, {"q": "a\ttab", "a": "2"}]),
    ],
)  # fmt: skip
def test_tools_and_scripts_read_the_same_rows(tmp_path, name, content, rows) -> None:
    (tmp_path / name).write_text(content, newline="")
    file = RawFile(tmp_path / name)
    assert [row for _, batch in file.batches() for row in batch] == rows == [*records(tmp_path / name)]
    assert (file.broken, file.read_error) == (0, "")


def test_the_line_of_a_broken_row_is_counted_from_the_files_first(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("sep=;\nq;a\n1;2\n3\n")
    file = RawFile(tmp_path / "a.csv")
    assert [n for numbers, _ in file.batches() for n in numbers] == [3, 4]
    assert [b.line for b in file.shown] == [4]


def test_times_that_python_cannot_hold(tmp_path) -> None:
    arrow: Any = pyarrow
    times = arrow.array([1_500_000_001, None], arrow.timestamp("ns", "UTC"))
    took = arrow.array([1500, 3], arrow.duration("ns"))
    pq.write_table(arrow.table({"t": times, "d": took}), tmp_path / "fine.parquet")
    [first, second] = records(tmp_path / "fine.parquet")
    assert (first["t"].microsecond, first["d"].microseconds, second["t"]) == (500_000, 1, None)
    pq.write_table(arrow.table({"t": arrow.array([2**52], arrow.timestamp("ms"))}), tmp_path / "far.parquet")
    file = RawFile(tmp_path / "far.parquet")
    assert [*file.batches()] == []
    assert file.read_error == "reading stopped after 0 rows: date value out of range"


def test_names_say_the_kind() -> None:
    assert [kind_of(Path(n)) for n in ("a.JSONL", "a.csv.gz", "a.b.json.zst", "a.parquet.gz", "a.gz", "a.bin", "a")] == [
        ".jsonl", ".csv", ".json", "", "", "", "",
    ]  # fmt: skip
