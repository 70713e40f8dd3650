"""What is read of a training and its run."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import ALIVE, CLAIM, TICKET, Command, JobStatus
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import launch, wait
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.training.metrics import evaluation_seconds, pulse_clock, thinned


def test_time_is_kept_for_the_longest_evaluation_wherever_it_was(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_UNSANDBOXED="always")
    run = settings.home.run("r")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny"))
    run_tools = RunTools(run, settings)
    places = (run.baseline, run.experiment(1).root)
    took = {place: evaluated(run_tools, place, seconds) for place, seconds in zip(places, (0.3, 0), strict=True)}
    assert took[places[0]] > took[places[1]] > 0
    assert evaluation_seconds(run_tools) == pytest.approx(took[places[0]])
    shutil.rmtree(run.baseline / "jobs")  # its answers came from the cache
    assert evaluation_seconds(run_tools) == pytest.approx(took[places[1]])
    shutil.rmtree(run.experiment(1).jobs)
    assert evaluation_seconds(run_tools) == 0


def evaluated(run_tools: RunTools, place: Path, seconds: float) -> float:
    """An evaluation job that only waits; what its supervisor says it took."""
    command = Command(
        argv=(sys.executable, "-c", f"import time; time.sleep({seconds})"), cwd=str(place), write=(str(place),)
    )
    place.mkdir(parents=True, exist_ok=True)
    job = launch(run_tools.sandbox, place / "jobs", "evaluate", command)
    assert wait(run_tools.sandbox, job).ok
    return float(read_json(job / "exit.json")["seconds"])


def test_a_node_s_own_clock_is_not_compared_with_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Settings(FT_FILE_PATH=tmp_path).home.run("r")
    folder, run_tools = run.experiment(1), RunTools(run, Settings(FT_FILE_PATH=tmp_path))
    job = folder.jobs / "train.1"
    job.mkdir(parents=True)
    monkeypatch.setattr(RunTools, "status", lambda *_: (JobStatus(state="running"), job))
    pulse = {"at": 1e9 + 50, "began": 1e9, "step": 5, "of": 10}  # a node that is up for thirty years
    write_json(folder.model / "pulse.json", pulse)
    (job / TICKET).write_text("7")
    assert pulse_clock(run_tools, folder, pulse) == (None, 0.0)  # of the attempt before: this one waits
    now = (folder.model / "pulse.json").stat().st_mtime
    for name, when in ((CLAIM, now - 60), (ALIVE, now + 20)):
        (job / name).touch()
        os.utime(job / name, (when, when))
    assert list(pulse_clock(run_tools, folder, pulse)) == pytest.approx([20, 70])
    assert pulse_clock(run_tools, folder, {}) == (None, 0.0)
    (job / TICKET).unlink()  # of this machine
    quiet, elapsed = pulse_clock(run_tools, folder, {**pulse, "at": time.monotonic(), "began": time.monotonic() - 9})
    assert quiet == pytest.approx(0, abs=1)
    assert elapsed == pytest.approx(9, abs=1)
    (job / "command.json").touch()
    old = time.monotonic() - 7200  # two hours ago, and then it was resumed
    os.utime(folder.model / "pulse.json", (time.time() - 7200,) * 2)
    assert pulse_clock(run_tools, folder, {**pulse, "at": old, "began": old - 9}) == (None, 0.0)
    os.utime(job / "command.json", (time.time() - 8000,) * 2)
    assert pulse_clock(run_tools, folder, {**pulse, "at": old, "began": old - 9})[0] == pytest.approx(7200, abs=5)


@pytest.mark.parametrize("count", [0, 1, 59, 60, 61, 119, 599])
def test_a_curve_is_thinned_and_keeps_its_ends(count: int) -> None:
    found = thinned(range(count), 60)
    assert len(found) == min(count, 60) == len(set(found))
    assert not count or (found[0], found[-1]) == (0, count - 1)
    gaps = {b - a for a, b in itertools.pairwise(found)}
    assert not gaps or max(gaps) - min(gaps) <= 1
