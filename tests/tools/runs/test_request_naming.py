"""What a caller over MCP may name: no path leads to a sealed test, to the home as a whole, or out of the open folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import ToolError
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.request import OpenFolders, RunRequest
from tuneloop.tools.runs.spec import is_path

REGISTERED = ("gsm8k", "tiny")


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenFolders:
    """A project folder with the home in it, as it is by default."""
    project = tmp_path / "project"
    home = Home(project / "tuneloop_files")
    for folder in (
        home.datasets / "mine",
        home.models / "org" / "m",
        home.benchmarks / "gsm8k" / "sealed",
        home.run("old").best,
        home.run("old").final,
        project / "data",
        tmp_path / "elsewhere",
    ):
        folder.mkdir(parents=True)
    (project / "out").symlink_to(tmp_path / "elsewhere")
    (project / "seal").symlink_to(home.benchmarks / "gsm8k" / "sealed")
    monkeypatch.chdir(project)
    return OpenFolders(home, (project,))


@pytest.mark.parametrize(
    "name",
    ["./data", "data", "tuneloop_files/datasets/mine", "tuneloop_files/models/org/m", "tuneloop_files/runs/old/best"],
)
def test_open_paths_become_absolute(given: OpenFolders, name: str) -> None:
    assert given.confined(name, REGISTERED) == str(Path(name).resolve())


@pytest.mark.parametrize("name", ["gsm8k", "tiny", "org/model", "org/data@main", "opencompass:gsm8k_gen"])
def test_names_stay(given: OpenFolders, name: str) -> None:
    assert given.confined(name, REGISTERED) == name


@pytest.mark.parametrize(
    "name",
    [
        "/etc",
        "../elsewhere",
        "~",
        "~root",
        "out",
        "data/../../elsewhere",
        ".",
        "..",
        "/",
        "tuneloop_files",
        "tuneloop_files/benchmarks/gsm8k/sealed",
        "./seal",
        "tuneloop_files/runs/old/final",
        "tuneloop_files/datasets/../benchmarks",
    ],
)
def test_closed_paths(given: OpenFolders, name: str) -> None:
    with pytest.raises(ToolError, match="is not open to you; right is a path below"):
        given.confined(name, REGISTERED)


@pytest.mark.parametrize("name", ["data,/etc", "--json", "", " ", "a\nb", "a\x00b"])
def test_no_names_at_all(given: OpenFolders, name: str) -> None:
    with pytest.raises(ToolError, match="is no name"):
        given.confined(name, REGISTERED)


def test_without_a_folder_only_the_home_is_open(given: OpenFolders) -> None:
    closed = OpenFolders(given.home)
    assert closed.confined("tuneloop_files/datasets/mine", ()) == str(given.home.datasets / "mine")
    with pytest.raises(ToolError, match="not open"):
        closed.confined("./data", ())


def test_what_the_command_line_takes_for_a_path(given: OpenFolders) -> None:
    assert [is_path(name, REGISTERED) for name in ("gsm8k", "data", "./x", "org/name")] == [False, True, True, False]


def test_every_name_of_a_request_is_looked_at(given: OpenFolders) -> None:
    right = {"run_id": "a", "benchmark": "gsm8k", "loop_n": 1}
    for wrong in (
        {"benchmark": "/etc"},
        {"also": ("gsm8k", "/etc")},
        {"base_model": "/etc"},
        {"datasets": ("/etc",)},
        {"guards": ("/etc:-2",)},
    ):
        with pytest.raises(ToolError, match="not open"):
            RunRequest(**{**right, **wrong}).checked(given, Settings())
