from __future__ import annotations

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

from tuneloop.core.files import append_line, digest, read_json, read_lines, write_atomic, write_json, write_lines


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
