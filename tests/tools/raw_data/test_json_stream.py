import json
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneloop.tools.raw_data.json_stream import StreamError, stream_rows

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(
    rows=st.lists(VALUES, max_size=6),
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 0, 2]),
    ascii_=st.booleans(),
)
def test_reads_what_json_reads(
    rows: list[object], chunk: int, indent: int | None, ascii_: bool, tmp_path: Path
) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_).encode("utf-8", "replace")
    (tmp_path / "data.json").write_bytes(text)
    assert repr(list(stream_rows(tmp_path / "data.json", chunk))) == repr(json.loads(text))


@SLOW
@given(rows=st.lists(VALUES, max_size=4), data=st.data(), chunk=st.integers(1, 40))
def test_refuses_what_json_refuses(rows: list[object], data: st.DataObject, chunk: int, tmp_path: Path) -> None:
    text = json.dumps(rows)
    at = data.draw(st.integers(0, len(text)))
    text = (
        text[:at]
        + data.draw(st.sampled_from(["", ",", "]", "[", "}", '"', "x", "1", " ", "\n[]"]))
        + text[at + data.draw(st.integers(0, 3)) :]
    )
    (tmp_path / "data.json").write_text(text)
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, list):
        assert repr(list(stream_rows(tmp_path / "data.json", chunk))) == repr(expected)
    else:
        with pytest.raises(StreamError):
            list(stream_rows(tmp_path / "data.json", chunk))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not a JSON list"),
        ("{}", "not a JSON list"),
        ('{"a": 1}\n{"a": 2}', "not a JSON list"),
        ("[1, 2", "row 2: cut short"),
        ("[1 2]", "row 1: followed by '2'"),
        ("[1, {]", "row 2: broken JSON"),
        ("[1] []", "goes on"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_says_where(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(StreamError, match=word):
        list(stream_rows(tmp_path / "data.json"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_bytes(b'["\xff"]')
    with pytest.raises(StreamError, match="UTF-8"):
        list(stream_rows(tmp_path / "data.json"))


def test_memory_is_flat(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    row = json.dumps({"instruction": "word " * 100, "input": "", "output": "other " * 100})
    path.write_text("[" + ",\n".join([row] * 20_000) + "]")
    tracemalloc.start()
    assert sum(1 for _ in stream_rows(path)) == 20_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_a_huge_value_takes_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(["x" * 3_000_000]))
    before = time.process_time()
    assert len(next(stream_rows(path, chunk=1000))) == 3_000_000
    assert time.process_time() - before < 10
