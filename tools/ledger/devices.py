"""GPU-hours: devices times hours of every job that may use them, from the jobs' folders; 0 on a CPU."""

from __future__ import annotations

import time
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.tools.report.timing import attempts, job_seconds

ALL = "all"


def gpu_hours(run: RunFolder) -> dict[int, float]:
    """Experiment → hours; 0: those of the run itself. Of a fork only what it did itself."""
    found: defaultdict[int, float] = defaultdict(float)
    if run.setup.is_file() and read_json(run.setup).get("device", "cpu") != "cpu":
        for number, jobs in places(run):
            for job in attempts(jobs):
                found[number] += devices(job) * seconds(job) / 3600
    return dict(found)


def places(run: RunFolder) -> list[tuple[int, Path]]:
    """Folders of jobs, and the experiment they belong to; what a fork stands on is not its own."""
    before = int(read_json(run.fork)["at"]) if run.fork.is_file() else -1
    own = [
        (0, run.final / "jobs"),
        *([(0, run.baseline / "jobs"), (0, run.baseline / "probe" / "jobs")] if before < 0 else []),
    ]
    for place in sorted(run.experiments.glob("[0-9]*")):
        if int(place.name) > before:
            own += [(int(place.name), jobs) for jobs in (place / "jobs", *place.glob("seeds/[0-9]*/jobs"))]
    return own


def seconds(job: Path) -> float:
    """Of an attempt that is over, or that runs."""
    begun = (job / "command.json").stat().st_mtime
    return max(0.0, time.time() - begun) if is_locked(job / "lock") else job_seconds(job)


def devices(job: Path) -> int:
    """How many a job may use: none where they are hidden from it, as from all code that models write."""
    return _devices(job / "command.json", (job / "command.json").stat().st_mtime_ns)


@lru_cache(maxsize=10_000)
def _devices(command: Path, written: int) -> int:  # noqa: ARG001 - another attempt is another command
    told = read_json(command)
    named = str(told.get("env", {}).get("CUDA_VISIBLE_DEVICES", "" if told.get("generated") else ALL))
    return count() if named == ALL else len([name for name in named.split(",") if name.strip()])


def count() -> int:
    """GPUs of this machine; at least one, where a run computes on one."""
    return max(1, len(list(Path("/dev").glob("nvidia[0-9]*"))))
