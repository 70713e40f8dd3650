"""What is read of a training and its run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training.metrics import evaluation_seconds


def test_time_is_kept_for_the_longest_evaluation_wherever_it_was(short_run, tmp_path: Path) -> None:
    run = RunFolder(Path(shutil.copytree(short_run.run.root, tmp_path / "run", symlinks=True)))
    run_tools = RunTools(run, Settings(FT_FILE_PATH=short_run.home))
    took = {place: exit_seconds(place) for place in (run.baseline, run.experiment(1).root)}
    assert evaluation_seconds(run_tools) == pytest.approx(max(took.values()))
    shutil.rmtree(run.baseline / "jobs")  # its answers came from the cache
    assert evaluation_seconds(run_tools) == pytest.approx(took[run.experiment(1).root])
    shutil.rmtree(run.experiment(1).jobs)
    assert evaluation_seconds(run_tools) == 0


def exit_seconds(place: Path) -> float:
    found = sum(read_json(end)["seconds"] for end in place.glob("jobs/evaluate.*/exit.json"))
    assert found > 0
    return float(found)
