"""Headers of safetensors that a stranger wrote: each lie is told apart, and nothing but ValueError comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuneloop.tools.weights.formats import tensor_names

GOOD = {
    "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
    "a": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]},
    "nothing": {"dtype": "F32", "shape": [0, 7], "data_offsets": [12, 12]},
}


def written(file: Path, header: Any, data: int = 12, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data))
    return file


def test_a_whole_file_names_its_tensors_in_order(tmp_path: Path) -> None:
    file = written(tmp_path / "m", {**GOOD, "__metadata__": {"format": "pt"}})
    assert tensor_names(file) == ["a", "b", "nothing"]


def one(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "a": {**GOOD["a"], **changes}}


LIES: dict[str, Any] = {
    "a gap": one(shape=[1, 1], data_offsets=[0, 2]),
    "an overlap": one(shape=[1, 4], data_offsets=[0, 8]),
    "before the file": one(data_offsets=[-4, 0]),
    "a huge shape": one(shape=[1 << 62, 1 << 62, 1 << 62]),
    "a negative shape": one(shape=[-1, -2]),
    "a fraction": one(shape=[1.0, 2.0]),
    "a truth": one(shape=[True, 2]),
    "a text": one(shape="12"),
    "many dimensions": one(shape=[1] * 60_000),
    "an unknown dtype": one(dtype="OBJECT"),
    "a dtype that is a list": one(dtype=["F32"]),
    "one place": one(data_offsets=[0]),
    "another key": one(code="x"),
    "no entry": {**GOOD, "a": None},
    "no tensors": {},
    "a list": [],
    "nested": b"[" * 100_000,
    "infinite": b'{"a": 1e999}',
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("lie", LIES)
def test_wrong_header_is_refused(lie: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        tensor_names(written(tmp_path / "m", LIES[lie]))


@pytest.mark.parametrize(("data", "length"), [(11, None), (13, None), (12, 1 << 63), (12, 0), (12, 1 << 20)])
def test_bytes_that_are_missing_or_left_over_are_refused(data: int, length: int | None, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        tensor_names(written(tmp_path / "m", GOOD, data, length))


def test_links_and_stubs_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "m", GOOD)
    (tmp_path / "link").symlink_to("m")
    (tmp_path / "stub").write_bytes(b"1234")
    for name in ("link", "stub", "absent"):
        with pytest.raises(ValueError):
            tensor_names(tmp_path / name)
