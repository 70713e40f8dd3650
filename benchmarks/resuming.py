"""How soon `tuneloop resume` holds a training that went on without anybody."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

from figures import figure
from place import Place
from processes import TUNELOOP, background, busy, environment, until
from whole_run import DEFAULT

from tuneloop.core.event_log import read_events
from tuneloop.core.events import JobProgress
from tuneloop.core.layout import RunFolder
from tuneloop.tools.jobs.run_tools import RunTools


def looked(run: RunFolder, after: datetime) -> list[JobProgress]:
    """What was said of the living training after an instant."""
    events, _ = read_events(run.events)
    return [e for e in events if isinstance(e, JobProgress) and e.job == "train" and e.done > 0 and e.at > after]


@figure("resume until attached", "s", "<= 3")
def attached(place: Place) -> float:
    """From the command to the resumed process's first report of the living job; the orchestrator was killed before.

    The orchestrator of a run is ended with SIGKILL while its training runs, three times in one training; the median.
    """
    run, times = place.run("resumed"), 1 if place.small else 3
    env, log = environment(place.home), place.root / "resume.txt"
    env |= {"FT_BENCHMARK_LIMIT": "20"} if place.small else {}
    argv: tuple[str, ...] = (
        *TUNELOOP,
        "run",
        *DEFAULT,
        "--loop-n",
        "1",
        "--run-id",
        run.id,
    )
    found: list[tuple[float, float]] = []
    for number in range(times + 1):
        place.say(f"resume: {'a run until it trains' if number == 0 else f'killed and resumed, {number} of {times}'}")
        began = datetime.now(UTC)
        found.append(sit(argv, env, log, place.root, run, began))
        argv = (*TUNELOOP, "resume", run.id)
    status, _ = RunTools(run, place.settings).status(run.experiment(1).jobs, "train")
    RunTools(run, place.settings).stop(run.experiment(1).jobs, "train")
    if status.state != "running":
        raise RuntimeError(f"the training was {status.state} before it was attached to: too short to measure")
    place.note("resume until attached, each [seconds, CPU seconds of its process]", found[1:])
    return statistics.median(seconds for seconds, _ in found[1:])


def sit(
    argv: tuple[str, ...], env: dict[str, str], log: Path, cwd: Path, run: RunFolder, began: datetime
) -> tuple[float, float]:
    """One orchestrator until it has looked at the living training, then SIGKILL; seconds and CPU seconds until then."""
    with background(argv, env=env, cwd=cwd, log=log) as child:
        until(lambda: looked(run, began), "a look at the living training", child, 600)
        cpu = busy(child.pid)
        child.kill()
        child.wait()
    time.sleep(0.3)
    return (looked(run, began)[0].at - began).total_seconds(), cpu
