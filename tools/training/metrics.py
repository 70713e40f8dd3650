"""Read what a training says of itself, and what its machine says of it: the signs that the watch judges."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tuneloop.core.files import read_field
from tuneloop.core.job import ALIVE, CLAIM, TICKET
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.protocols import LossPoint
from tuneloop.core.untrusted import numeric_fields, read_bytes, strict_json
from tuneloop.tools.evaluation.jobs import JOBS
from tuneloop.tools.jobs.machine import memory_limit
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.report.timing import remember_over
from tuneloop.tools.training.monitor import LoggedStep, MonitorSigns
from tuneloop.tools.training.result import log_points

SHORTEST_GRACE, LONGEST_GRACE = 30.0, 3600.0
LARGEST_PULSE = 1 << 16  # bytes
SLOWEST_DISK = 50 << 20  # bytes a second, while no save was seen
SHOWN = 8
T = TypeVar("T")


def read_pulse(out: Path) -> dict[str, Any]:
    """The numbers of the training's last sign of life, {} before the first, or where it is none."""
    try:
        found = strict_json(read_bytes(out / "pulse.json", LARGEST_PULSE))
    except (FileNotFoundError, ValueError):
        return {}
    told = numeric_fields(found) if isinstance(found, dict) else {}
    return told if told.keys() >= {"at", "began", "step", "of"} else {}


def grace_seconds(out: Path) -> float:
    """Seconds a training gets to end: the step at hand, a checkpoint, its proof; from half a minute to an hour."""
    pulse = read_pulse(out)
    return min(max(SHORTEST_GRACE, 10.0 + save_seconds(pulse)), LONGEST_GRACE)


def save_seconds(pulse: Mapping[str, Any]) -> float:
    """Seconds from a request to a proved checkpoint, by what was seen."""
    seen = pulse.get("save_seconds") or pulse.get("saved_bytes", 0) / SLOWEST_DISK
    return 2.0 * (pulse.get("longest") or 0.0) + 3.0 * float(seen)


def read_signs(run_tools: RunTools, folder: ExperimentFolder, seconds_left: float | None) -> MonitorSigns:
    """All signs of a full training now; `training_seconds_left` of the run's time, None without a limit."""
    out = folder.model
    pulse, rows = read_pulse(out), log_points(out, "watch.jsonl", "step")
    quiet, elapsed = pulse_clock(run_tools, folder, pulse)
    return MonitorSigns(
        points=logged_steps(rows),
        step=pulse.get("step", 0),
        of=pulse.get("of", 0),
        quiet=quiet,
        step_seconds=pulse.get("step_seconds"),
        expected=read_field(folder.forecast, "seconds_per_step", float) if folder.forecast.is_file() else 0.0,
        longest=pulse.get("longest", 0.0),
        save_seconds=pulse.get("save_seconds", 0.0),
        save_bytes=pulse.get("saved_bytes", 0),
        free_disk=shutil.disk_usage(folder.root).free,
        memory=pulse.get("memory"),
        memory_limit=memory_limit(run_tools.settings),
        left=training_seconds_left(run_tools, elapsed, seconds_left),
        reserve=5.0 + save_seconds(pulse),
    )


def pulse_clock(run_tools: RunTools, folder: ExperimentFolder, pulse: Mapping[str, Any]) -> tuple[float | None, float]:
    """Seconds since a training's last pulse, None before the first, and since it began.

    A node of a cluster has a clock of its own: there the file system's tells, between the pulse and its runner's last sign.
    """
    _, job = run_tools.status(folder.jobs, "train")
    if not pulse:
        return None, 0.0
    if job is None or not (job / TICKET).is_file():
        asked, told = job and job / "command.json", folder.model / "pulse.json"
        if asked and asked.is_file() and told.is_file() and told.stat().st_mtime < asked.stat().st_mtime:
            return None, 0.0  # the last one of an earlier attempt
        now = time.monotonic()
        return now - pulse["at"], now - pulse["began"]
    try:
        pulsed, claimed = (folder.model / "pulse.json").stat().st_mtime, (job / CLAIM).stat().st_mtime
        quiet = max(0.0, (job / ALIVE).stat().st_mtime - pulsed)
    except FileNotFoundError:  # it waits for a node, or has just ended
        return None, 0.0
    return (None, 0.0) if pulsed < claimed else (quiet, pulse["at"] - pulse["began"] + quiet)


def training_seconds_left(run_tools: RunTools, elapsed: float, seconds_left: float | None) -> float | None:
    """Seconds until the training has to be over: FT_FULL_TIMEOUT, or the run's time less that of its evaluation."""
    limits = [] if seconds_left is None else [seconds_left - evaluation_seconds(run_tools)]
    full = run_tools.settings.full_timeout
    if full is not None:
        limits.append(full - elapsed)
    return min(limits, default=None)


def evaluation_seconds(run_tools: RunTools) -> float:
    """How long the longest evaluation of the run took; 0 before there was one, and while all answers came from the cache."""
    places = (run_tools.run.baseline, *run_tools.run.experiments.glob("[0-9]*"))
    return max(
        remember_over("evaluation", place / "jobs", partial(seconds_of_jobs, run_tools, place / "jobs"))
        for place in places
    )


def seconds_of_jobs(run_tools: RunTools, jobs: Path) -> float:
    """Of all jobs of one evaluation that ended well."""
    return sum(job_seconds(run_tools, jobs, job) for job in JOBS)


def job_seconds(run_tools: RunTools, jobs: Path, name: str) -> float:
    """Of a job that ended well, else 0."""
    status, _ = run_tools.status(jobs, name)
    return status.exit.seconds if status.exit and status.exit.ok else 0.0


def logged_steps(rows: list[dict[str, Any]]) -> tuple[LoggedStep, ...]:
    """The logged steps with a loss."""
    return tuple(
        LoggedStep(
            step=row["step"],
            loss=float(row["loss"]),
            grad_norm=row.get("grad_norm"),
            rate=row.get("learning_rate"),
            moved=row.get("moved"),
        )
        for row in rows
        if row.get("loss") is not None
    )


def thinned(rows: Sequence[T], most: int) -> list[T]:
    """At most so many of the rows, at even distances, first and last among them. `most`: 2 or more."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def recent_steps(found: tuple[LoggedStep, ...]) -> tuple[LossPoint, ...]:
    """The last points for a tool's answer: a number that is none becomes null."""
    return tuple(
        LossPoint(
            step=p.step,
            loss=finite_number(p.loss),
            grad_norm=finite_number(p.grad_norm),
            learning_rate=finite_number(p.rate),
        )
        for p in found[-SHOWN:]
    )


def finite_number(value: float | None) -> float | None:
    """A finite number, else None: NaN is no JSON."""
    return value if value is not None and math.isfinite(value) else None
