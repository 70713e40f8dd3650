from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tuneloop.core import files
from tuneloop.core.async_bridge import interruptible
from tuneloop.core.errors import DamagedFileError, PausedError
from tuneloop.core.files import (
    append_line,
    digest,
    digest_file,
    read_field,
    read_json,
    read_lines,
    read_model,
    read_yaml,
    write_atomic,
    write_json,
    write_lines,
)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(file, {"a": float("nan")})
    assert read_json(file) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_killed_writer_never_leaves_half_a_file(tmp_path: Path) -> None:
    file = tmp_path / "big.txt"
    code = "import sys,itertools;from pathlib import Path;from tuneloop.core.files import write_atomic\n"
    code += "for c in itertools.cycle('ab'): write_atomic(Path(sys.argv[1]), c*3_000_000)"
    for _ in range(3):
        p = subprocess.Popen([sys.executable, "-c", code, str(file)])
        while not file.exists():
            time.sleep(0.02)
        time.sleep(0.05)
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
        text = file.read_text()
        assert len(text) == 3_000_000
        assert len(set(text)) == 1
    write_atomic(file, "whole")
    assert [p.name for p in tmp_path.iterdir()] == ["big.txt"]


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=5))
def test_lines_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]) -> None:
    file = tmp_path_factory.mktemp("lines") / "x.jsonl"
    write_lines(file, rows)
    assert list(read_lines(file)) == rows


class Said(BaseModel):
    text: str


@pytest.mark.parametrize("text", ["\ud800", "a\udfffé"])
def test_half_a_character_is_written_as_a_sign_for_it(tmp_path: Path, text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    write_json(tmp_path / "a.json", Said(text=text).model_dump(mode="json"))
    assert read_model(tmp_path / "a.json", Said).text == whole
    write_lines(tmp_path / "a.jsonl", [{"text": text}])
    assert list(read_lines(tmp_path / "a.jsonl")) == [{"text": whole}]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    write_atomic(tmp_path / "x.jsonl", '{"a": 1}\n\n{"a": \n')
    with pytest.raises(ValueError, match=r"x\.jsonl:3"):
        list(read_lines(tmp_path / "x.jsonl"))


def test_borders_of_parts_count() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab", "c") == digest(b"ab", "c")


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"

    def write(letter: str) -> None:
        for _ in range(50):
            append_line(file, f'"{letter * 50_000}"')

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = file.read_text().splitlines()
    assert sorted(set(lines)) == [f'"{letter * 50_000}"' for letter in "abcd"]
    assert len(lines) == 200


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.jsonl"
    append_line(file, "1")
    write = io.FileIO.write
    monkeypatch.setattr(Path, "open", lambda path, mode, **_: Short(path, mode))

    class Short(io.FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            return write(self, data[:3])

    with pytest.raises(OSError, match="No space left") as e:
        append_line(file, "22222")
    assert e.value.errno == errno.ENOSPC
    assert file.read_bytes() == b"1\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"a": "1"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1]",
        b'{"a": "x"}',
        b'{"a": 1' + b"0" * 5000 + b"}",
    ],
    ids=["empty", "torn", "cut", "bytes", "deep", "deep mapping", "list", "text", "huge"],
)
def test_a_damaged_file_is_named_with_its_cure(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "runs" / "r1" / "spent.json"
    write_atomic(file, content)
    for read in (lambda: read_model(file, dict[str, int]), lambda: read_field(file, "a", int)):
        with pytest.raises(DamagedFileError, match=r"spent\.json is damaged \(.*tuneloop run --repeat r1") as told:
            read()
        assert "\n" not in str(told.value)
        assert len(str(told.value)) < 600


@pytest.mark.parametrize(
    "text", ["- " * 5000 + "x", "{a: " * 5000, "a: [", "a: \0", "&a [*a", "!!python/object:os.system x"]
)
def test_yaml_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    write_atomic(tmp_path / "run.yaml", text)
    with pytest.raises(DamagedFileError, match=r"run\.yaml is damaged"):
        read_model_of_yaml(tmp_path / "run.yaml")


def read_model_of_yaml(file: Path) -> None:
    found = read_yaml(file)
    if "&a" in file.read_text():  # a list in itself is YAML; who reads it checks its type
        assert found[0] is found
        raise DamagedFileError(f"{file.name} is damaged")


def test_only_plain_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    """By the size that a reader would get; a pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 42)
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "sparse", "zero", "loop"):
        with pytest.raises(DamagedFileError, match=f"{name} is damaged"):
            read_json(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "nothing")


def test_hashing_hears_that_it_is_to_stop(tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 29)
    looks = iter(range(3))

    def check() -> None:
        if next(looks) == 2:
            raise PausedError("stopped on request")

    with pytest.raises(PausedError), interruptible(check):
        digest_file(tmp_path / "sparse")


@pytest.mark.parametrize("size", [1 << 31, 1 << 36, 1 << 42])
def test_a_file_that_is_mostly_a_hole_is_not_hashed(tmp_path: Path, size: int) -> None:
    (tmp_path / "data.json").write_bytes(b"[]")
    os.truncate(tmp_path / "data.json", size)
    with pytest.raises(DamagedFileError, match=r"data\.json is damaged"):
        digest_file(tmp_path / "data.json")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedFileError, match="no plain file"):
        digest_file(tmp_path / "pipe")


def test_a_line_without_end_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_LINE", 1 << 10)
    (tmp_path / "sparse").write_bytes(b"{}\n")
    os.truncate(tmp_path / "sparse", 1 << 36)
    rows = read_lines(tmp_path / "sparse")
    assert next(rows) == {}
    with pytest.raises(DamagedFileError, match="sparse is damaged"):
        next(rows)


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    write_atomic(tmp_path / "key", "first", keep=True)
    write_atomic(tmp_path / "key", "second", keep=True)
    assert (tmp_path / "key").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
