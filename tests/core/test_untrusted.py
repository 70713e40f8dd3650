"""Files that a job wrote: nothing in them may block, follow, swell or crash who reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.core.untrusted import numeric_fields, read_bytes, read_numeric_rows, read_untrusted_json


def link(path: Path) -> None:
    (path.parent / "secret").write_text("{}")
    path.symlink_to("secret")


def huge(path: Path) -> None:
    with path.open("wb") as f:
        f.truncate(1 << 40)


NOT_PLAIN: dict[str, Callable[[Path], None]] = {
    "no plain file": link,
    "is no plain file": os.mkfifo,
    "no plain file: ": lambda p: p.symlink_to("/dev/zero"),
    "no plain": Path.mkdir,
    "larger than 1000 bytes": huge,
}


@pytest.mark.parametrize("said", NOT_PLAIN)
def test_only_plain_files_of_bounded_size_are_read(said: str, tmp_path: Path) -> None:
    NOT_PLAIN[said](tmp_path / "f")
    with pytest.raises(ValueError, match=said):
        read_bytes(tmp_path / "f", 1000)


def test_one_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "f")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}', '[Infinity]', "[-Infinity]", "[1e999]", "[" * 100_000, '{"a":' * 100_000, "[" + "9" * 5000 + "]",
        '["\\ud800"]', "{", "", "\xff",
    ],
)  # fmt: skip
def test_json_that_would_break_its_reader_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError):
        read_untrusted_json(tmp_path / "f")


def test_plain_json_is_what_it_says(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "ü"], "b": {}}
    (tmp_path / "f").write_text(json.dumps(value))
    assert read_untrusted_json(tmp_path / "f") == value


def test_of_a_log_numbers_are_taken(tmp_path: Path) -> None:
    lines = [
        '{"a": 1, "b": NaN, "c": "x", "d": [1], "e": true}',
        "[1]",
        "{",
        "[" * 100_000,
        '{"a": ' + "9" * 4000 + "}",
    ]
    (tmp_path / "f").write_text("\n".join(lines))
    first, last = read_numeric_rows(tmp_path / "f")
    assert first["a"] == 1 and first["b"] != first["b"] and first.keys() == {"a", "b"}
    assert last == {}
    assert numeric_fields({"n": -(1 << 62), "m": 1 << 61, "x": float("inf")}) == {"m": 1 << 61, "x": float("inf")}
