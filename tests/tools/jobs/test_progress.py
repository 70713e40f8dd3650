"""What a job said of its progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.tools.jobs.progress import last_progress, told_progress


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", {"done": 0, "total": 0, "unit": "rows"}),
        ('{"done": 3, "total": 9}', {"done": 3, "total": 9, "unit": "rows"}),
        ('{"done": 3, "total": 9, "unit": "secrets", "note": "a test item"}', {"done": 3, "total": 9, "unit": "rows"}),
        (
            '{"done": 3, "total": 9, "unit": "answers", "kept": 2, "without": "a test item", "note": "another"}',
            {"done": 3, "total": 9, "unit": "answers", "note": "2 from before"},
        ),
        (
            '{"done": 3, "total": 9, "unit": "answers", "kept": 0, "without": 1}\n{"done": "many"}\n{"torn": ',
            {"done": 3, "total": 9, "unit": "answers", "note": "1 without"},
        ),
    ],
)
def test_a_scripts_progress_is_told_in_our_words(tmp_path: Path, line: str, told: dict[str, object]) -> None:
    (tmp_path / "log.txt").write_text(f"hello\n{line}\n")
    assert told_progress(tmp_path / "log.txt") == told
    assert last_progress(tmp_path / "log.txt") == (told["done"], told["total"])
