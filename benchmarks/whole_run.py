"""A whole run on the embedded default: what the orchestrator itself costs, and how soon a second run trains."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from figures import figure
from place import ROOT, Place
from processes import background, environment, spend, until, well

from tuneloop.core.event_log import read_events
from tuneloop.core.events import NodeFinished, NodeStarted
from tuneloop.core.layout import RunFolder
from tuneloop.tools.jobs.run_tools import RunTools

EXPERIMENTS = 3
DEFAULT = ("--benchmark", "wordproblems", "--base-model", "tiny")
SMALL = ("--step-n", "5")  # nodes
# As users run it: the second run finds the base model's score of the first.
CACHED = {"FT_DOCKER_ENABLE_CACHE": "true"}
# Runs the command line and leaves its own CPU seconds, without any child's, in a file.
COUNTED = """\
import atexit, resource, sys
from pathlib import Path
place = Path(sys.argv.pop(1))
def leave():
    used = resource.getrusage(resource.RUSAGE_SELF)
    place.write_text(str(used.ru_utime + used.ru_stime))
atexit.register(leave)
from tuneloop.cli.main import main
sys.argv[0] = "tuneloop"
main()
"""


@dataclass(frozen=True)
class TimedRun:
    """`cpu`: seconds of the orchestrator's own process; `inside`: those of them in nodes of experiments."""

    run: RunFolder
    experiments: int
    cpu: float
    inside: float


def limits(place: Place) -> dict[str, str]:
    """Small: of few items, the same for both runs, so that the second finds the score of the first."""
    return {"FT_BENCHMARK_LIMIT": "20"} if place.small else {}


def timed_run(place: Place) -> TimedRun:
    """`tuneloop run` to its end; small: five nodes of it."""
    count = 1 if place.small else EXPERIMENTS
    run = place.run("whole")
    log, cpu = place.root / "whole.txt", place.root / "cpu.txt"
    place.say(f"a whole run of {count} experiment(s)")
    env = environment(place.home) | CACHED | limits(place)
    given = (*DEFAULT, *(SMALL if place.small else ()), "--loop-n", str(count), "--run-id", run.id)
    argv = [sys.executable, "-c", COUNTED, str(cpu), "run", *given]
    spent = well(spend(argv, env=env, cwd=place.root, log=log), log)
    events, _ = read_events(run.events)
    inside = [e for e in events if isinstance(e, NodeFinished) and e.node not in ("prepare", "finish", "steer")]
    sum_ = sum(e.cpu for e in inside)
    own = float(cpu.read_text())
    place.note(
        "whole run", {"seconds": spent.wall, "CPU": own, "CPU with waited children": spent.cpu, "peak MB": spent.memory}
    )
    place.note("nodes, [node, experiment, seconds, CPU seconds]", nodes(run))
    return TimedRun(run, count, own, sum_)


def nodes(run: RunFolder) -> list[tuple[str, int, float, float]]:
    """Time of every node."""
    events, _ = read_events(run.events)
    return [(e.node, e.experiment, e.seconds, e.cpu) for e in events if isinstance(e, NodeFinished)]


@figure("orchestration of an experiment", "CPU s", "<= 1")
def orchestration(place: Place) -> float:
    """The orchestrator's process from `research` to `critique`, mean of the run's experiments; jobs not counted."""
    found = place.once(timed_run)
    return found.inside / found.experiments


@figure("orchestration of a run beside its experiments", "CPU s", "<= 5")
def start_and_end(place: Place) -> float:
    """The rest of the same process: start, `prepare`, `finish`, console."""
    found = place.once(timed_run)
    return found.cpu - found.inside


@figure("checkpoint of an experiment", "KB", "<= 200")
def checkpoint(place: Place) -> float:
    """`checkpoint.sqlite` and its journal after the run, by experiment."""
    found = place.once(timed_run)
    files = found.run.root.glob(f"{found.run.checkpoint.name}*")
    return sum(f.stat().st_size for f in files) / 1024 / found.experiments


@figure("events of an experiment", "KB", "<= 50")
def events(place: Place) -> float:
    """`events.jsonl` after the run, by experiment."""
    found = place.once(timed_run)
    return found.run.events.stat().st_size / 1024 / found.experiments


@figure("second `make run` until the training begins", "s", "<= 20")
def second_run(place: Place) -> float:
    """From `make` to the training's `command.json`; all is installed and another run was made in the same home."""
    place.once(timed_run)
    log = place.root / "make.txt"
    env = environment(place.home) | CACHED | limits(place)
    well(spend(["make", "install", "sandbox"], env=env, cwd=ROOT, log=log), log)
    before = set(place.settings.home.runs.iterdir())
    began = time.time()
    with background(["make", "run"], env=env, cwd=ROOT, log=log) as child:
        new: list[RunFolder] = []

        def trains() -> bool:
            new[:] = [RunFolder(p) for p in set(place.settings.home.runs.iterdir()) - before]
            return bool(new) and (new[0].experiment(1).jobs / "train.1" / "command.json").is_file()

        until(trains, "the training of `make run`", child, 600)
        seconds = time.time() - began
    RunTools(new[0], place.settings).stop(new[0].experiment(1).jobs, "train")
    place.note("second make run, [node, seconds after make]", begun(new[0], began))
    return seconds


def begun(run: RunFolder, origin: float) -> list[tuple[str, float]]:
    """When each node began."""
    found, _ = read_events(run.events)
    return [(e.node, round(e.at.timestamp() - origin, 2)) for e in found if isinstance(e, NodeStarted)]
