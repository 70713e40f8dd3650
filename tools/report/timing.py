"""Where a run's time went: each node of each experiment, its jobs, and what was lost when a session ended in the middle."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tuneloop.core.files import read_model
from tuneloop.core.job import Exit
from tuneloop.core.layout import RunFolder
from tuneloop.tools.report.turns import NodeTime, add_times, node_turns

# Jobs are called like their nodes, but for these.
NODES = {"dry_run": "validate", "merge": "finish"}


def node_times(run: RunFolder) -> tuple[NodeTime, ...]:
    """In the order in which nodes first ran. `cut` turns were ended by a crash or a pause after `lost` seconds."""
    found: dict[tuple[int, str], NodeTime] = {}
    for part in (*node_turns(run.events), *job_times(run), *cached_evaluations(run)):
        key = (part.experiment, part.node)
        old = found.get(key, NodeTime(experiment=part.experiment, node=part.node))
        found[key] = add_times(old, part)
    return tuple(found[key] for key in sorted(found, key=lambda key: key[0]))


def total_time(times: Iterable[NodeTime], node: str = "all") -> NodeTime:
    """The sum."""
    whole = NodeTime(experiment=0, node=node)
    for part in times:
        whole = add_times(whole, part)
    return whole


def times_by_experiment(times: Iterable[NodeTime]) -> dict[int, list[NodeTime]]:
    """Experiment → its parts."""
    found: defaultdict[int, list[NodeTime]] = defaultdict(list)
    for part in times:
        found[part.experiment].append(part)
    return dict(found)


def longest_experiments(times: Iterable[NodeTime], most: int) -> dict[int, list[NodeTime]]:
    """The `most` experiments that took longest, in order of their numbers."""
    found = times_by_experiment(times)
    chosen = sorted(found, key=lambda n: -sum(part.seconds for part in found[n]))[:most]
    return {n: found[n] for n in sorted(chosen)}


def job_times(run: RunFolder) -> Iterator[NodeTime]:
    """A part for every attempt of a job; one that was killed lasted until its last word in the log."""
    for place, node in (*((place, "prepare") for place in run.preparations), (run.final, "finish")):
        for job in job_attempts(place / "jobs"):
            yield NodeTime(experiment=0, node=node, jobs=job_seconds(job), attempts=1)
    for place in sorted(run.experiments.glob("[0-9]*")):
        for job in job_attempts(place / "jobs"):
            name = job.name.rpartition(".")[0]
            yield NodeTime(experiment=int(place.name), node=NODES.get(name, name), jobs=job_seconds(job), attempts=1)
        for job in (job for again in sorted(place.glob("seeds/[0-9]*")) for job in job_attempts(again / "jobs")):
            yield NodeTime(experiment=0, node="finish", jobs=job_seconds(job), attempts=1)


def cached_evaluations(run: RunFolder) -> Iterator[NodeTime]:
    """A part for every evaluation that took answers from the cache; `cached` counts them."""
    from tuneloop.tools.evaluation.cache import read_plan  # scorers and numpy come with it; a run without jobs has none

    places = [(run.baseline, 0, "prepare"), (run.final, 0, "finish")]
    places += [(place, int(place.name), "evaluate") for place in sorted(run.experiments.glob("[0-9]*"))]
    for place, number, node in places:
        plan = read_plan(place)
        if plan is not None and plan.known:
            count = sum(len(row.get("items", ())) for row in plan.known.values())
            yield NodeTime(experiment=number, node=node, cached=count)


SETTLED = 5.0  # seconds after which a folder's time of change tells of another attempt on any file system
_remembered: dict[tuple[str, Path], tuple[int, float]] = {}


def remember_over(what: str, jobs: Path, measure: Callable[[], float]) -> float:
    """`measure()` of a folder of jobs, kept under the name `what` as long as all of its attempts are over.

    Hundreds of experiments are asked for it again and again while others run.
    """
    try:
        written = jobs.stat().st_mtime_ns
    except FileNotFoundError:
        return measure()
    known = _remembered.get((what, jobs))
    if known is not None and known[0] == written:
        return known[1]
    over = time.time() - written / 1e9 > SETTLED and all(
        (job / "exit.json").is_file()  # one without `command.json` waits to be started
        for job in jobs.glob("*.[0-9]*")
    )
    found = measure()
    if over:
        _remembered[what, jobs] = written, found
    return found


def job_attempts(jobs: Path) -> list[Path]:
    """Folders of jobs that were started."""
    return sorted(job for job in jobs.glob("*.[0-9]*") if (job / "command.json").is_file())


def job_seconds(job: Path) -> float:
    """From its `exit.json`; of a job that was killed, by its files' times."""
    try:
        return read_model(job / "exit.json", Exit).seconds
    except (FileNotFoundError, ValueError):
        last = max((job / name).stat().st_mtime for name in ("log.txt", "command.json") if (job / name).exists())
        return max(0.0, last - (job / "command.json").stat().st_mtime)
