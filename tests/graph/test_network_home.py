"""A whole run whose home lies on a network file system that refuses locks and shared memory."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import COMMAND, SHARED_HOME, begin_small, tuneloop
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder


@pytest.mark.soak
@pytest.mark.parametrize("network_home", ["FUSE"], indirect=True)
def test_a_run_on_a_network_home_ends_and_keeps_its_locks_and_checkpoint_on_the_local_disk(
    network_home: Path, tmp_path: Path, llamafactory: object, opencompass: object, tiny: Path
) -> None:
    for name in ("engines", "models"):
        (network_home / name).symlink_to(SHARED_HOME / name)
    state = tmp_path / "mine"
    begin_small(network_home, "r", TUNELOOP_STATE_DIR=str(state))
    said = tuneloop(network_home, "resume", "r", "--json", command=(*COMMAND, "--state-dir", str(state)))
    run = RunFolder(network_home / "runs" / "r")
    assert json.loads(said.splitlines()[-1])["kind"]
    assert read_json(run.root / "report.json")
    assert list((state / "locks").iterdir())
    with closing(sqlite3.connect(f"{run.checkpoint.as_uri()}?immutable=1", uri=True)) as copy:
        assert copy.execute("select count(*) from checkpoints").fetchone()[0]
