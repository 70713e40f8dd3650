"""A candidate that would be accepted is trained again with another seed; a kill in the middle of that costs nothing."""

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

pytestmark = pytest.mark.slow


def sitting(home: Path, *words: str) -> subprocess.Popen[bytes]:
    """An orchestrator at work."""
    env = {**os.environ, "FT_FILE_PATH": str(home)}
    with (home.parent / "said.txt").open("ab") as said:
        return subprocess.Popen([*COMMAND, *words], env=env, cwd=home.parent, stdout=said, stderr=said)


def test_the_second_seed_survives_a_kill_and_the_mean_decides(warm_home: Path) -> None:
    folder = RunFolder(warm_home / "runs" / "seeds").experiment(1)
    again = folder.root / "seeds" / "2"
    begin_small(warm_home, "seeds", "--seeds", "2")
    first = sitting(warm_home, "resume", "seeds")
    while not (is_locked(again / "jobs" / "train.1" / "lock") and (again / "model" / "pulse.json").is_file()):
        assert first.poll() is None, (warm_home.parent / "said.txt").read_text()[-2000:]
        time.sleep(0.1)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert not folder.scores.is_file(), "what decides is written when all is measured"

    assert sitting(warm_home, "resume", "seeds").wait() == 0, (warm_home.parent / "said.txt").read_text()[-2000:]
    assert [job.name for job in sorted((again / "jobs").glob("train.*"))] == ["train.1"], "the training went on alone"
    own, other, mean = (read_json(file) for file in (folder.training, again / "training.json", folder.scores))
    assert own["last_loss"] != other["last_loss"], "another seed is another training"
    assert len(mean["by_seed"]) == 2
    assert mean["value"] == pytest.approx(sum(mean["by_seed"]) / 2)
    assert read_json(again / "scores.json")["value"] == mean["by_seed"][1]
    assert not list((again / "model").glob("*.safetensors")), "its weights go when it is measured"
    assert list(folder.model.glob("*.safetensors"))
    closed = read_json(folder.result)
    assert closed["feedback"]["accepted"]
    assert closed["feedback"]["comparison"]["seeds"] == 2
    assert "trained with 2 seeds" in (folder.root.parent.parent / "report.md").read_text()
