"""Where a run's time went: each node of each experiment, its jobs, and what was lost when a session ended in the middle."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.event_log import parse_event, whole_lines
from tuneloop.core.events import NodeFinished, NodeInterrupted, NodeStarted, RunPaused, RunStarted
from tuneloop.core.layout import RunFolder

# Everything else is only a sign of life: it is not even parsed.
KINDS = ("node_started", "node_finished", "node_interrupted", "run_started", "run_paused")
READ = tuple(f'"kind":"{kind}"'.encode() for kind in KINDS)
# Jobs are called like their nodes, but for these.
NODES = {"dry_run": "validate", "merge": "finish"}


class NodeTime(BaseModel):
    """One node of one experiment (0: the run itself) over all sessions; seconds."""

    model_config = ConfigDict(frozen=True)

    experiment: int
    node: str
    turns: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    cut: int = 0
    lost: float = 0.0
    jobs: float = 0.0
    attempts: int = 0
    cached: int = 0


def node_times(run: RunFolder) -> tuple[NodeTime, ...]:
    """In the order in which nodes first ran. `cut` turns were ended by a crash or a pause after `lost` seconds."""
    found: dict[tuple[int, str], NodeTime] = {}
    for part in (*node_turns(run.events), *job_times(run), *cached_evaluations(run)):
        key = (part.experiment, part.node)
        old = found.get(key, NodeTime(experiment=part.experiment, node=part.node))
        found[key] = add_times(old, part)
    return tuple(found[key] for key in sorted(found, key=lambda key: key[0]))


def add_times(one: NodeTime, other: NodeTime) -> NodeTime:
    """Both together, under the first one's name."""
    numbers = ("turns", "seconds", "cpu", "cut", "lost", "jobs", "attempts", "cached")
    return one.model_copy(update={name: getattr(one, name) + getattr(other, name) for name in numbers})


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


def node_turns(events: Path) -> Iterator[NodeTime]:
    """A part for every turn of a node; one that was cut without a word lasted until the last sign of life after it."""
    begun: NodeStarted | None = None
    last = b""
    for line in whole_lines(events):
        event = parse_event(line) if any(mark in line for mark in READ) else None
        if isinstance(event, NodeFinished):
            yield NodeTime(experiment=event.experiment, node=event.node, turns=1, seconds=event.seconds, cpu=event.cpu)
            begun = None
        elif isinstance(event, NodeInterrupted):
            yield NodeTime(experiment=event.experiment, node=event.node, cut=1, lost=event.seconds)
            begun = None
        elif isinstance(event, NodeStarted | RunStarted | RunPaused):
            if begun is not None:
                yield interrupted_turn(begun, event.at if isinstance(event, RunPaused) else line_time(last))
            begun = event if isinstance(event, NodeStarted) else None
        last = line


def interrupted_turn(begun: NodeStarted, end: datetime | None) -> NodeTime:
    """A turn that was not finished."""
    lost = max(0.0, (end - begun.at).total_seconds()) if end else 0.0
    # research opens the experiment after the one that it is begun in.
    number = begun.experiment + (begun.node == "research")
    return NodeTime(experiment=number, node=begun.node, cut=1, lost=lost)


def line_time(line: bytes) -> datetime | None:
    """When a line was written; None when it is damaged."""
    event = parse_event(line)
    return event.at if event else None


def job_times(run: RunFolder) -> Iterator[NodeTime]:
    """A part for every attempt of a job; one that was killed lasted until its last word in the log."""
    for place, node in ((run.baseline, "prepare"), (run.baseline / "probe", "prepare"), (run.final, "finish")):
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


def job_attempts(jobs: Path) -> list[Path]:
    """Folders of jobs that were started."""
    return sorted(job for job in jobs.glob("*.[0-9]*") if (job / "command.json").is_file())


def job_seconds(job: Path) -> float:
    """From its `exit.json`; of a job that was killed, by its files' times."""
    try:
        return float(json.loads((job / "exit.json").read_text())["seconds"])
    except (FileNotFoundError, ValueError, KeyError):
        last = max((job / name).stat().st_mtime for name in ("log.txt", "command.json") if (job / name).exists())
        return max(0.0, last - (job / "command.json").stat().st_mtime)
