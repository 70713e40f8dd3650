"""Where things lie: names lead nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a/..",
        "/etc",
        "a/",
        "./a",
        "a\0b",
        "a\nb",
        "\ud800",
        "\u202ea",
        "é" * 200,
        "x" * 256,
    ],
)
def test_a_runs_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="no run's name"):
        Home(tmp_path).run(name)


@pytest.mark.parametrize("name", ["aime25-1", "a b", "...", "x..y", "C:", "ü", "~", "-rf"])
def test_any_single_folder_is_a_runs_name(tmp_path: Path, name: str) -> None:
    assert Home(tmp_path).run(name).root == tmp_path / "runs" / name
