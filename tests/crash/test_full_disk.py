"""A disk that is full, or becomes read-only: the run pauses with one line and ends right when there is room again."""

from __future__ import annotations

import os
import time

import pytest

from .disks import fill, free, memory_disk, mount
from .kills import kill, victims
from .test_misfortunes import at
from .world import Place, processes, until

pytestmark = pytest.mark.slow


def test_full_and_read_only_disk(new_place, tmp_path, same_end) -> None:
    with memory_disk(tmp_path / "disk") as disk:
        place = new_place("full", home=disk / "home")
        try:
            for node, left in (("prepare", 0), ("rehearse", 200_000), ("train", 3_000_000), ("finish", 0)):
                full_in(place, disk, node, left)
            same_end(place)
        finally:
            kill(list(processes(tmp_path)))


def outside(place: Place) -> dict[str, str]:
    """Orchestrators that keep nothing open on the disk but what they write."""
    return {"log": str(place.home.parent.parent / "log"), "cwd": "/"}


def full_in(place: Place, disk, node: str, left: int) -> None:
    """Let the disk run full in a node: one line, nothing goes on; then make room."""
    pid = place.start(**outside(place))
    at(place, pid, node)
    fill(disk, left)
    code = until(lambda: place.over(pid) is not None and [place.over(pid)], 240)[0]
    log = place.home.parent.parent / "log"
    said = log.read_text()
    assert code == 1, (node, code, said[-3000:])
    assert "Traceback" not in said, (node, said[-3000:])
    if node == "rehearse":
        read_only(place, disk)
    free(disk)
    if node == "finish":
        assert place.drive(**outside(place)) == 0, log.read_text()[-3000:]


def read_only(place: Place, disk) -> None:
    """A resume on a read-only disk says so in one line and changes nothing."""
    free(disk)
    while there := [p for pids in victims(place.home).values() for p in pids]:
        kill(there)
        time.sleep(0.1)
    mount("-o", "remount,ro", str(disk))
    before = sorted((p, p.lstat().st_mtime_ns) for p in place.home.rglob("*"))
    log = place.home.parent.parent / "log"
    start = os.path.getsize(log)
    assert place.drive(**outside(place)) in (1, 2)
    said = log.read_text()[start:]
    assert "Traceback" not in said, said
    assert len([line for line in said.splitlines() if line.startswith("tuneloop:")]) == 1, said
    mount("-o", "remount,rw", str(disk))
    assert sorted((p, p.lstat().st_mtime_ns) for p in place.home.rglob("*")) == before
