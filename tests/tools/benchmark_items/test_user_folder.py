"""Folders of benchmarks that are the user's or somebody's: nothing in them makes reading wait or grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.benchmark_items.user_folder import read_declaration

TEXT = "name: sums\ndescription: Add.\nanswer: {}\n"


@pytest.mark.parametrize("name", ["benchmark.yaml", "judge.py"])
@pytest.mark.parametrize("kind", ["pipe", "zeros", "folder"])
def test_what_is_no_plain_file_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "benchmark.yaml").write_text(TEXT.format("verifier:judge.py"))
    path = tmp_path / name
    path.unlink(missing_ok=True)
    make = {"pipe": os.mkfifo, "zeros": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}
    make[kind](path)
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        read_declaration(tmp_path / "benchmark.yaml")
