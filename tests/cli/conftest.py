"""The command line in this process, in a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tuneloop.cli.main import cli
from tuneloop.core.layout import Home, RunFolder
from tuneloop.tools.runs.manifest import FORMAT
from tuneloop.tools.runs.signature import write_signed_spec

SPEC = f"format: {FORMAT}\nspec: {{benchmark: wordproblems, base_model: tiny}}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def make_run(home: Home, name: str) -> RunFolder:
    """A run that was begun."""
    run = home.run(name)
    write_signed_spec(run, SPEC)
    return run
