"""Where a run stands, at any length of run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.core.layout import RunFolder
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.tools.runs.status import run_status

COMMAND = (sys.executable, "-m", "tuneloop.cli.main")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_long_run: Callable[..., RunFolder]) -> Path:
    """1,000 experiments, 200,000 events."""
    home = tmp_path_factory.mktemp("long")
    make_long_run(RunFolder(home / "runs" / "long"), 1000, 25)
    return home


def test_all_experiments_in_order(home: Path) -> None:
    status = run_status(RunFolder(home / "runs" / "long"))
    assert [e.number for e in status.journal.experiments] == list(range(1, 1001))
    assert status.best is not None
    assert (status.best.number, status.state, status.stage, status.experiment) == (994, "paused", "evaluate", 1000)
    with hold_lock(RunFolder(home / "runs" / "long").lock):
        assert run_status(RunFolder(home / "runs" / "long")).state == "running"


@pytest.mark.parametrize("command", [("status", "--json"), ("status",), ("list", "runs")])
def test_little_memory(home: Path, command: tuple[str, ...]) -> None:
    """What a thousand experiments cost in time is a row of `make bench`."""
    code = "import subprocess,sys,resource;subprocess.run(sys.argv[1:],capture_output=True,check=True);"
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    p = subprocess.run(
        [sys.executable, "-c", code, *COMMAND, *command],
        env={**os.environ, "FT_FILE_PATH": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(p.stdout) <= 100 * 1024


def test_people_see_the_last_ones_and_scripts_all(home: Path) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(home), "COLUMNS": "120"}
    shown = subprocess.run([*COMMAND, "status"], env=env, cwd=home, capture_output=True, text=True, check=True).stdout
    assert len(shown.splitlines()) < 200
    assert "970 earlier experiments" in shown
    told = subprocess.run(
        [*COMMAND, "status", "--json"], env=env, cwd=home, capture_output=True, text=True, check=True
    ).stdout
    assert len(json.loads(told)["experiments"]) == 1000
