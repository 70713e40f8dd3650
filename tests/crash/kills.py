"""Random SIGKILLs with a printed seed: orchestrator, supervisors, workers, jobs, or all of them at once."""

from __future__ import annotations

import collections
import os
import random
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from .world import Place, events, launches, processes, twice_alive

GAP = 2.0  # seconds between kills, on average
NODES = 3  # no node of a run gets more than this part of the kills
MARKS = {
    "supervisor": "tuneloop.sandboxes.supervisor",
    "worker": "/engines/worker.py",
    "training": "/llamafactory/train.py",
    "evaluation": "/opencompass/measure.py",
    "script": "/process_data.py",
}
FORKED = {"train": "training", "smoke_run": "training", "evaluate": "evaluation"}


def victims(home: Path) -> dict[str, list[int]]:
    """Processes of the home's jobs by kind; a sandbox around a job counts as the job."""
    found: dict[str, list[int]] = {}
    known = processes(home)
    for pid, words in known.items():
        kind = next((kind for kind, mark in MARKS.items() if mark in words), "sandbox")
        found.setdefault(forked(pid, known) if kind == "worker" else kind, []).append(pid)
    return found


def node(place: Place) -> str:
    """Where the run is."""
    return "".join(re.findall(r'"kind":"node_started".*?"node":"(\w+)"', events(place))[-1:])


def forked(pid: int, known: dict[int, str]) -> str:
    """A worker, a fork_parent below it, or a job below that: all of one command line."""
    above = parent(pid)
    if MARKS["worker"] not in known.get(above, "") or "bwrap" in known[above].split()[0]:
        return "worker"
    if MARKS["worker"] not in known.get(parent(above), "") or "bwrap" in known[parent(above)].split()[0]:
        return "fork_parent"
    try:
        return FORKED.get(Path(f"/proc/{pid}/cwd").readlink().name, "fork_parent")
    except OSError:
        return "fork_parent"


def parent(pid: int) -> int:
    """0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@dataclass
class Storm:
    """Kills while a run goes; resumes it whenever its orchestrator is gone."""

    place: Place
    rng: random.Random
    killed: collections.Counter[str] = field(default_factory=collections.Counter)
    where: collections.Counter[str] = field(default_factory=collections.Counter)

    def blow(self, kills: int) -> None:
        """Until `kills` are counted or the run is finished; then let it end in peace."""
        pid = self.place.start()
        while self.killed.total() < kills:
            self.watch(self.rng.expovariate(1 / GAP))
            code = self.place.over(pid)
            if code == 0:
                return
            if code is not None:
                assert code in (-9, 1), f"exit {code} after {dict(self.killed)}: {self.place.said()}"
                pid = self.place.start()
                continue
            if self.where[node(self.place)] < max(1, kills // NODES):
                self.strike(pid)
        code = self.place.wait(pid)
        assert code in (0, -9, 1), f"exit {code} after {dict(self.killed)}: {self.place.said()}"
        if code != 0:
            self.place.finish()

    def strike(self, pid: int) -> None:
        """One kill."""
        there = victims(self.place.home) | {"orchestrator": [pid]}
        everyone = sorted({p for pids in there.values() for p in pids})
        kind = self.rng.choice([*sorted(there), "orchestrator", "all at once"])
        if kind == "all at once":
            kill(everyone)
        else:
            kill([self.rng.choice(sorted(there[kind]))] if kind != "orchestrator" else [pid])
        self.killed[kind] += 1
        self.where[node(self.place)] += 1

    def watch(self, seconds: float) -> None:
        """Wait; two living attempts of one job are an error at any time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert list(twice_alive(self.place.run)) == [], launches(self.place.run)
            time.sleep(min(0.1, seconds))
