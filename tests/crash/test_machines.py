"""A run goes on from another machine, which sees the files of the first one and not its locks."""

from __future__ import annotations

from collections.abc import Callable

from tests.waiting import until

from .kills import kill
from .world import Place, end_all, events, launches

LOST = 15.0  # supervisors give a sign every ten seconds
# In an orchestrator: it is another machine. Locks of jobs that were begun elsewhere are not seen.
MACHINE = """
import socket
from tuneloop.core import run_lease
from tuneloop.sandboxes import local
run_lease._boot = lambda: NAME
socket.gethostname = lambda: NAME
run_lease.BEAT, run_lease.FENCE, run_lease.LOST, local.LOST = 0.2, 3.0, 6.0, LOST
seen = local.is_locked
local.network_kind = lambda _: "NFS"
local.is_locked = lambda lock: seen(lock) and local.named_in(lock)[1] == NAME
"""


def machine(name: str) -> str:
    return f"NAME, LOST = {name!r}, {LOST}\n{MACHINE}"


def until_job(place: Place, pid: int, job: str) -> None:
    lock = place.run / "experiments" / "001" / "jobs" / job / "lock"

    def begun() -> bool:
        assert place.over(pid) is None, place.said()
        return lock.is_file() and bool(lock.read_text().strip())

    until(begun, 600)


def test_another_machine_takes_what_a_living_job_brings_and_repeats_a_dead_one(
    new_place: Callable[[str], Place],
) -> None:
    place = new_place("machines")
    first = place.start(prepare=machine("first"))
    until_job(place, first, "train.1")
    kill([first])
    place.wait(first)
    second = place.start(prepare=machine("second"))
    until_job(place, second, "evaluate.1")
    assert launches(place.run)["001/train"] == ["finished 0"], "its supervisor on the first machine went on"
    kill([second])
    place.wait(second)
    end_all(place.home)
    assert place.drive(prepare=machine("third")) == 0, place.said()
    assert place.finished, place.said()
    ends = launches(place.run)
    assert ends["001/train"] == ["finished 0"]
    assert ends["001/evaluate"] == ["killed", "finished 0"]
    assert "last worked on by first since" in place.log.read_text()
    assert events(place).count('"kind":"run_finished"') == 1
