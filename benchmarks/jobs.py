"""What a sandbox and its supervisor add to a job that does nothing, and to one that takes long."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from figures import figure
from place import Place
from processes import busy, spend

from tuneloop.core.job import Command, Sandbox
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.jobs import wait

LONG, MINUTE = 10.0, 60.0


def command(work: Path, *argv: str) -> Command:
    """A job in a folder of its own."""
    work.mkdir(parents=True, exist_ok=True)
    return Command(argv=argv, cwd=str(work), write=(str(work),))


def added(place: Place, sandbox: Sandbox) -> float:
    """Median milliseconds from `start` to `exit.json`, less those of a plain process."""
    times = 5 if place.small else 20
    work = place.root / "noop"
    ours, plain = [], []
    for number in range(times):
        began = time.perf_counter()
        folder = place.root / "jobs" / f"{sandbox.kind}.{number}"
        sandbox.start(folder, command(work, "/bin/true"))
        wait(sandbox, folder, every=0.001)
        ours.append(time.perf_counter() - began)
        plain.append(spend(["/bin/true"], log=work / "log.txt").wall)
    return 1000 * (statistics.median(ours) - statistics.median(plain))


@figure("start and end of a job beyond a plain process, bubblewrap", "ms", "<= 150")
def bubblewrap(place: Place) -> float:
    """`/bin/true`."""
    return added(place, open_sandbox("bubblewrap"))


@figure("start and end of a job beyond a plain process, process", "ms", "<= 100")
def process(place: Place) -> float:
    """`/bin/true`."""
    return added(place, open_sandbox("process"))


@figure("supervisor of a job", "CPU s/min", "<= 0.3")
def supervisor(place: Place) -> float:
    """Everything of the job's session but the job: supervisor and watcher, while the job sleeps."""
    sandbox = open_sandbox("auto")
    seconds = 2.0 if place.small else LONG
    folder = place.root / "jobs" / "sleep.1"
    sandbox.start(folder, command(place.root / "sleep", "/bin/sleep", str(seconds + 2)))
    while not (named := (folder / "lock").read_text()):
        time.sleep(0.01)
    supervisor_pid = int(named.split()[0])
    pids = (supervisor_pid, parent(supervisor_pid))
    before, began = sum(map(busy, pids)), time.perf_counter()
    time.sleep(seconds)
    spent, passed = sum(map(busy, pids)) - before, time.perf_counter() - began
    sandbox.stop(folder)
    wait(sandbox, folder)
    return spent * MINUTE / passed


def parent(pid: int) -> int:
    """The process above."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
