"""Random SIGKILLs with a printed seed: orchestrator, supervisors, workers, jobs, or all of them at once."""

from __future__ import annotations

import collections
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from .world import Place, launches, processes, twice_alive

GAP = 2.0  # seconds between kills, on average
KINDS = {
    "supervisor": ("tuneloop.sandboxes.supervisor",),
    "worker": ("/worker.py", "/warm.py"),
    "training": ("/llamafactory/train.py",),
    "evaluation": ("/opencompass/measure.py",),
    "script": ("/process_data.py",),
}


def victims(home: Path) -> dict[str, list[int]]:
    """Processes of the home's jobs by kind; a sandbox around a job counts as the job."""
    found: dict[str, list[int]] = {}
    for pid, words in processes(home).items():
        kind = next((k for k, marks in KINDS.items() if any(m in words for m in marks)), None)
        if kind:
            found.setdefault(kind, []).append(pid)
    return found


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

    def blow(self, kills: int) -> None:
        """Kill `kills` times or until the run is finished; then let it end in peace."""
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

    def watch(self, seconds: float) -> None:
        """Wait; two living attempts of one job are an error at any time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert list(twice_alive(self.place.run)) == [], launches(self.place.run)
            time.sleep(min(0.1, seconds))
