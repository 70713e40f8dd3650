"""The crash tests see every job that a run can have."""

from __future__ import annotations

import fcntl
from pathlib import Path

from tuneloop.core.layout import RunFolder

from .world import jobs_of, launches, twice_alive


def test_jobs_of_all_places_are_seen(tmp_path: Path) -> None:
    run, again = RunFolder(tmp_path), RunFolder(tmp_path, training=2)
    jobs = [run.baseline / "jobs", run.final / "jobs", run.experiment(1).jobs, again.experiment(1).jobs]
    made = {place / f"train.{attempt}" for place in jobs for attempt in (1, 2)}
    for folder in made:
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    assert set(jobs_of(tmp_path)) == made
    assert set(launches(tmp_path)) == {"baseline/train", "final/train", "001/train", "001/seeds/2/train"}
    assert list(twice_alive(tmp_path)) == []
    first, second = ((again.experiment(1).jobs / f"train.{attempt}" / "lock").open() for attempt in (1, 2))
    with first, second:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.flock(second, fcntl.LOCK_EX)
        assert len(list(twice_alive(tmp_path))) == 1
