"""Blocks hold what `json` reads, whatever their size; broken files are refused at the same row as by the slow reader."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuneloop.tools.raw_data.json_blocks import stream_blocks, stream_list_or_lines
from tuneloop.tools.raw_data.json_stream import StreamError, stream_rows

TEXT = st.text(max_size=12) | st.sampled_from(['},{"a": 1', '"}, {"', "\\", "]", "\ud83d"])
INNER = st.dictionaries(st.sampled_from(["a", "b"]), TEXT, max_size=2)
VALUE = TEXT | st.none() | st.integers(-9, 9) | st.lists(INNER, max_size=3)
ROW = st.dictionaries(st.sampled_from(["a", "b", "é"]), VALUE, max_size=3)
SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(
    rows=st.lists(ROW, max_size=8),
    size=st.integers(1, 60),
    indent=st.sampled_from([None, 0, 2]),
    ascii_=st.booleans(),
)
def test_blocks_hold_what_json_reads(
    rows: list[object], size: int, indent: int | None, ascii_: bool, tmp_path: Path
) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_).encode("utf-8", "replace")
    path = tmp_path / "data.json"
    path.write_bytes(text)
    found: list[Any] = []
    for block in stream_blocks(path, size):
        assert block.first == len(found) + 1
        for index, value in enumerate(block.rows):
            line = block.line_of(index)
            begun = b"\n".join(text.split(b"\n")[line - 1 :])
            assert begun.lstrip(b" [,")[:1] in (b"{", b"\n") or isinstance(value, dict) is False
        found += block.rows
    assert repr(found) == repr(json.loads(text))


@SLOW
@given(rows=st.lists(ROW, min_size=1, max_size=5), data=st.data(), size=st.integers(1, 60))
def test_broken_files_are_refused_alike(rows: list[object], data: st.DataObject, size: int, tmp_path: Path) -> None:
    text = json.dumps(rows)
    at = data.draw(st.integers(0, len(text)))
    text = (
        text[:at]
        + data.draw(st.sampled_from(["", ",", "]", "[", "}", '"', "{"]))
        + text[at + data.draw(st.integers(0, 3)) :]
    )
    path = tmp_path / "data.json"
    path.write_text(text)

    def outcome(reader: object) -> str:
        try:
            return repr(list(reader))  # type: ignore[call-overload]
        except StreamError as e:
            return f"refused: {e}"

    fast = outcome(value for block in stream_blocks(path, size) for value in block.rows)
    assert fast == outcome(stream_rows(path))


@pytest.mark.parametrize("indent", [None, 1])
def test_lines(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    rows = [{"a": "x" * n, "b": [{"a": 1}]} for n in range(200)]
    path.write_text(json.dumps(rows, indent=indent))
    lines = [b.line_of(i) for b in stream_blocks(path, 500) for i in range(len(b.rows))]
    assert lines == ([1] * 200 if indent is None else [2 + 8 * n for n in range(200)])


def test_a_file_cut_behind_a_comma(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text('[{"a": 1},')
    for size in (1, 3, 100):
        with pytest.raises(StreamError, match="row 2"):
            list(stream_blocks(path, size))
    path.write_text('[{"a": 1},]')
    with pytest.raises(StreamError, match="row 2"):
        list(stream_blocks(path, 100))


@pytest.mark.parametrize("size", [1, 30, 1 << 19])
@pytest.mark.parametrize("pad", ["x", "\\u0022\\u0022"])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, size: int, pad: str) -> None:
    """The engine and the gate would read different values."""
    path = tmp_path / "data.json"
    path.write_text(f'[{{"a": "{pad}"}}, {{"a": 2, "b": [{{"c": "{pad}", "c": 1}}]}}, {{"a": 3}}]')
    with pytest.raises(StreamError, match="row 2: an object names the key 'c' twice"):
        list(stream_blocks(path, size))
    path.write_text(f'{{"a": "{pad}"}}\n{{"a": "{pad}", "a": 1}}\n')
    with pytest.raises(StreamError, match=r"line 2 is no JSON .an object names the key 'a' twice"):
        list(stream_list_or_lines(path))
    path.write_text(f'[{{"a": "{pad}"}}, {{"a": {{"b": "{pad}"}}}}]')
    assert len([row for block in stream_blocks(path, size) for row in block.rows]) == 2
