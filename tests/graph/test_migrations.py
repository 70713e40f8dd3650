"""Runs that older versions of tuneloop left, as they stored them, go on with this one; newer ones are left alone."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuneloop.core.errors import SetupError
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.migrations import STEPS, migrate
from tuneloop.graph.persistence import open_checkpoints
from tuneloop.graph.rebuild import rebuild
from tuneloop.graph.runs import drive, entry
from tuneloop.graph.state import VERSION, State, Trouble
from tuneloop.tools.runs.manifest import FORMAT

STORED = Path(__file__).parent / "stored"


def stored_run(home: Path, version: int, name: str) -> RunFolder:
    """A copy of a stored run below `home`; what it says of its old home is true again."""
    run = RunFolder(home / "runs" / name)
    shutil.copytree(STORED / f"version_{version}" / name, run.root)
    (run.root / "checkpoint.db").rename(run.checkpoint)
    for script in run.experiments.glob("*/process_data.stored"):  # no file that the linters of this project look at
        script.rename(script.with_suffix(".py"))
    run.setup.write_text(run.setup.read_text().replace("HOME", str(home)))
    return run


def entered(run: RunFolder, home: Path) -> State:
    """The state with which this version goes on."""
    ctx = Context(run, Settings(FT_FILE_PATH=home), State(version=VERSION, run_id=run.id))
    with open_checkpoints(run, None) as store:
        return entry(ctx, store)


def test_there_is_a_step_from_every_version() -> None:
    assert sorted(STEPS) == list(range(1, VERSION))


def test_version_1_paused_in_a_repair(tmp_path: Path) -> None:
    run = stored_run(tmp_path, 1, "repairing")
    state = entered(run, tmp_path)
    assert (state.version, state.stage, state.experiment, state.attempt) == (VERSION, "write_config", 1, 1)
    assert state.trouble is not None
    assert (state.trouble.node, state.trouble.culprit, state.trouble.leads) == ("validate", "config", "write_config")
    assert state.spent == pytest.approx(53.2, abs=0.1)
    with sqlite3.connect(run.checkpoint) as db:
        assert db.execute("select count(*) from checkpoints").fetchone() == (0,), "nothing of the old form may be left"
    again = entered(run, tmp_path)  # killed right after that: the files tell the rest
    assert again.stage == "prepare"
    assert rebuild(run, Settings(FT_FILE_PATH=tmp_path)).stage == "validate"


def test_version_1_paused_between_two_nodes(tmp_path: Path) -> None:
    state = entered(stored_run(tmp_path, 1, "early"), tmp_path)
    assert (state.stage, state.experiment, state.attempt, state.trouble) == ("engineer_data", 1, 0, None)


@pytest.mark.parametrize(
    ("stage", "attempt", "culprit", "leads"),
    [
        ("engineer_data", 1, "script", "engineer_data"),
        ("validate", 2, "data", "engineer_data"),
        ("critique", 3, "config", "critique"),
        ("critique", 0, "environment", "critique"),
    ],
)
def test_where_a_trouble_of_version_1_led(stage: str, attempt: int, culprit: str, leads: str) -> None:
    trouble = {"node": "validate", "culprit": culprit, "text": "x"}
    values: dict[str, Any] = {"version": 1, "run_id": "r", "stage": stage, "attempt": attempt, "trouble": trouble}
    assert migrate(values).trouble == Trouble(node="validate", culprit=culprit, text="x", leads=leads)


def snapshot(run: RunFolder) -> dict[str, tuple[int, bytes]]:
    return {
        str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in run.root.rglob("*") if p.is_file() and p != run.lock
    }


def test_a_manifest_of_the_future_is_left_alone(tmp_path: Path) -> None:
    run = stored_run(tmp_path, 1, "early")
    given = yaml.safe_load(run.spec.read_text())
    run.spec.write_text(yaml.safe_dump({**given, "format": FORMAT + 1, "version": "9.1.0"}))
    before = snapshot(run)
    with pytest.raises(SetupError, match=r"newer tuneloop \(9\.1\.0\)"):
        drive(run, Settings(FT_FILE_PATH=tmp_path))
    assert snapshot(run) == before


def test_a_state_of_the_future_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored_run(tmp_path, 1, "early")
    entered(run, tmp_path)
    monkeypatch.setattr("tuneloop.graph.runs.VERSION", 0)
    run = stored_run(tmp_path / "other", 1, "early")
    with sqlite3.connect(run.checkpoint) as db:
        before = db.execute("select * from checkpoints order by checkpoint_id").fetchall()
    with pytest.raises(SetupError, match="newer tuneloop"):
        entered(run, tmp_path / "other")
    with sqlite3.connect(run.checkpoint) as db:
        assert db.execute("select * from checkpoints order by checkpoint_id").fetchall() == before
