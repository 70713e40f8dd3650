"""Runs that another version made are refused with one line, and nothing in them changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.drive import drive, entry_state
from tuneloop.graph.state import VERSION, State
from tuneloop.tools.runs.manifest import FORMAT, write_manifest


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that was asked for."""
    made = Settings(FT_FILE_PATH=tmp_path).home.run("r")
    made.root.mkdir(parents=True)
    write_manifest(made, RunSpec(benchmark="b", base_model="m"))
    return made


def contents(run: RunFolder) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in run.root.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("made", "said"), [(FORMAT + 1, r"newer tuneloop \(9\.1\.0\)"), (1, r"older tuneloop \(9\.1\.0\)")]
)
def test_run_of_another_format_is_refused(run: RunFolder, tmp_path: Path, made: int, said: str) -> None:
    given = yaml.safe_load(run.spec.read_text())
    run.spec.write_text(yaml.safe_dump({**given, "format": made, "version": "9.1.0"}))
    before = contents(run)
    with pytest.raises(InvalidRequestError, match=said):
        drive(run, Settings(FT_FILE_PATH=tmp_path))
    assert contents(run) == before


@pytest.mark.parametrize(("version", "said"), [(VERSION + 1, "newer tuneloop"), (VERSION - 1, "older tuneloop")])
def test_checkpoint_of_another_version_is_refused(run: RunFolder, tmp_path: Path, version: int, said: str) -> None:
    store: Any = SimpleNamespace(values=lambda: {"version": version}, lost="")
    with pytest.raises(InvalidRequestError, match=said):
        entry_state(Context(run, Settings(FT_FILE_PATH=tmp_path), State(run_id="r")), store)
