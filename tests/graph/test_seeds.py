"""Further seeds: promoted recipes are trained again after the last experiment; a kill in the middle costs nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import COMMAND, begin_small
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked


def session(home: Path, *words: str) -> subprocess.Popen[bytes]:
    """An orchestrator at work."""
    env = {**os.environ, "FT_FILE_PATH": str(home)}
    with (home.parent / "said.txt").open("ab") as said:
        return subprocess.Popen([*COMMAND, *words], env=env, cwd=home.parent, stdout=said, stderr=said)


@pytest.mark.soak
def test_second_seed_survives_kill_and_better_is_delivered(warm_home: Path) -> None:
    run = RunFolder(warm_home / "runs" / "seeds")
    folder = run.experiment(1)
    again = folder.root / "seeds" / "2"
    begin_small(warm_home, "seeds", "--seeds", "2")
    first = session(warm_home, "resume", "seeds")
    while not (is_locked(again / "jobs" / "train.1" / "lock") and (again / "model" / "pulse.json").is_file()):
        assert first.poll() is None, (warm_home.parent / "said.txt").read_text()[-2000:]
        time.sleep(0.1)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert folder.result.is_file(), "the experiment is closed before its recipe is trained again"
    assert not run.candidates.is_file()

    assert session(warm_home, "resume", "seeds").wait() == 0, (warm_home.parent / "said.txt").read_text()[-2000:]
    assert [job.name for job in sorted((again / "jobs").glob("train.*"))] == ["train.1"], "the training went on alone"
    own, other = (read_json(file) for file in (folder.training, again / "training.json"))
    assert own["last_loss"] != other["last_loss"], "another seed is another training"
    values = [read_json(place / "scores.json")["value"] for place in (folder.root, again)]
    found, report = read_json(run.candidates), read_json(run.report_json)
    assert found["values"] == {"1": values}
    assert found["chosen"]["training"] == (2 if values[1] > values[0] else 1)
    assert report["best"]["training"] == found["chosen"]["training"]
    assert report["best"]["validation"]["value"] == max(values)
    assert report["trainings"] == {"1": values}
    assert len(report["experiments"]) == 1, "a training with another seed is no experiment"
    assert "standard deviation" in run.report.read_text()
