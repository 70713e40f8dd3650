"""What each sandbox costs: a job that does nothing beside a plain process, a warm experiment beside the `process` sandbox."""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import ExitStack

from figures import SkippedError, figure
from jobs import command
from ours import experiment, open_reference, timed
from place import Place
from processes import spend

from tuneloop.core.run_spec import SandboxKind
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.docker_daemon import probe_docker
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.landlock import landlock_problem

KINDS: tuple[SandboxKind, ...] = ("process", "bubblewrap", "landlock", "docker")
PROBES = {"bubblewrap": probe_bubblewrap, "landlock": landlock_problem, "docker": probe_docker}
NOOP = (sys.executable, "-c", "pass")


def kinds_here() -> list[SandboxKind]:
    """The sandboxes that work on this machine."""
    return [kind for kind in KINDS if kind not in PROBES or PROBES[kind]() is None]


def starts(place: Place) -> dict[str, float]:
    """Median milliseconds from `start` to `exit.json`, by sandbox, in turns; `plain`: fork, exec and wait alone."""
    times = 5 if place.small else 30
    boxes = {kind: open_sandbox(kind) for kind in kinds_here()}
    work = place.root / "noop"
    asked = command(work, *NOOP).model_copy(update={"read": (sys.prefix, sys.base_prefix)})
    took: dict[str, list[float]] = {name: [] for name in (*boxes, "plain")}
    for number in range(times):
        for kind, box in boxes.items():
            folder = place.root / "jobs" / f"noop-{kind}.{number}"
            began = time.perf_counter()
            box.start(folder, asked)
            wait(box, folder, every=0.001)
            took[kind].append(time.perf_counter() - began)
        took["plain"].append(spend(NOOP, log=work / "log.txt").wall)
    found = {name: 1000 * statistics.median(each) for name, each in took.items()}
    place.note("start of a no-op job, ms", {**found, "load": os.getloadavg()[0]})
    return found


def experiments(place: Place) -> dict[str, float]:
    """Least seconds of training and evaluation, by sandbox, in turns, the engines warm."""
    steps, items, times = (4, 8, 1) if place.small else (60, 100, 3)
    runs = {kind: open_reference(place, items, f"warm-{kind}", kind) for kind in kinds_here()}
    took: dict[str, list[float]] = {kind: [] for kind in runs}
    with ExitStack() as warm:
        for ctx in runs.values():
            warm.enter_context(ctx.run_tools.warm_engines())
        for number in range(times + 1):
            for kind, ctx in runs.items():
                spent = timed(experiment(ctx, number + 1, 4 if number == 0 else steps))
                took[kind].append(spent.train + spent.evaluate)
    found = {kind: min(each[1:]) for kind, each in took.items()}  # the first one was to wake everything up
    place.note("experiment through warm engines, s", {**took, "load": os.getloadavg()[0]})
    return found


def over(figures: dict[str, float], kind: str, base: str) -> float:
    """How many times as much. Raises SkippedError for a sandbox that this machine has not."""
    if kind not in figures:
        raise SkippedError(PROBES[kind]() or f"no {kind} here")
    return figures[kind] / figures[base]


@figure("start and end of a no-op job, bubblewrap / plain process", "x", "<= 4")
def start_bubblewrap(place: Place) -> float:
    """`python -c pass`."""
    return over(place.once(starts), "bubblewrap", "plain")


@figure("start and end of a no-op job, docker / plain process", "x", "<= 60")
def start_docker(place: Place) -> float:
    """`python -c pass`."""
    return over(place.once(starts), "docker", "plain")


@figure("train and evaluate through warm engines, bubblewrap / process", "x", "<= 1.2")
def warm_bubblewrap(place: Place) -> float:
    """A short experiment of the reference's recipe."""
    return over(place.once(experiments), "bubblewrap", "process")


@figure("train and evaluate through warm engines, docker / process", "x", "<= 1.2")
def warm_docker(place: Place) -> float:
    """A short experiment of the reference's recipe."""
    return over(place.once(experiments), "docker", "process")


@figure("train and evaluate through warm engines, landlock / bubblewrap", "x", "<= 1.15")
def warm_landlock(place: Place) -> float:
    """A short experiment of the reference's recipe."""
    return over(place.once(experiments), "landlock", "bubblewrap")
