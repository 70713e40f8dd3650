"""A run with two experiments side by side is killed while both train; it ends as one to which nothing happened."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from .world import Place, begun, differences, journal, launches, leftovers, twice_alive

SIDE_BY_SIDE = ["--parallel", "2"]
# A training long enough to be killed in, and no longer.
STEPS = "from tuneloop.agents.policy import parameter_map; parameter_map.TINY_STEPS = 40"
LONGEST = 120.0  # seconds until both train


def test_kill_with_two_open_experiments(new_place: Callable[..., Place]) -> None:
    calm, killed = new_place("calm"), new_place("killed")
    calm.loops = killed.loops = 2
    assert calm.drive(more=SIDE_BY_SIDE, prepare=STEPS) == 0, calm.said()
    pid = killed.start(more=SIDE_BY_SIDE, prepare=STEPS)
    wait_for_trainings(killed)
    os.kill(pid, signal.SIGKILL)
    killed.wait(pid)
    assert list(twice_alive(killed.run)) == []
    assert killed.drive(prepare=STEPS) == 0, killed.said()
    assert differences(journal(calm), journal(killed)) == [], launches(killed.run)
    began = begun(killed.run)
    assert [began[f"00{number}/train"] for number in (1, 2)] == [1, 1], "trainings went on and were found again"
    assert list(twice_alive(killed.run)) == [] and leftovers(killed.home) == []


def wait_for_trainings(place: Place) -> None:
    """Until experiments 1 and 2 train."""
    jobs = [place.run / "experiments" / name / "jobs" / "train.1" / "lock" for name in ("001", "002")]
    until = time.monotonic() + LONGEST
    while not all(
        job.is_file() and job.read_text().strip() for job in jobs
    ):  # an empty lock is of an attempt that never began
        assert time.monotonic() < until, place.said()
        time.sleep(0.1)
