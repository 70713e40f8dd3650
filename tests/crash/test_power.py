"""The power goes: whatever was not synced is lost; the run goes on from what the medium holds, or says what is gone."""

from __future__ import annotations

import os
import signal
import time

import pytest

from .disks import LosingDisk
from .kills import kill
from .world import FORM, launches, processes, say, seeded

pytestmark = pytest.mark.slow
GAP = 6.0


def test_power_cuts(new_place, tmp_path, same_end, capsys) -> None:
    with capsys.disabled():
        rng = seeded("power cuts")
    disk, began = LosingDisk(tmp_path / "disk"), time.monotonic()
    try:
        place = new_place("power", tmp_path / "disk")
        # The disk is young: what made the home is there for good.
        os.sync()
        for _ in range(FORM.cuts):
            pid = place.start()
            time.sleep(rng.uniform(0.2, 2 * GAP))
            cut(place, disk, pid)
        with capsys.disabled():
            say(f"{FORM.cuts} power cuts, {time.monotonic() - began:.0f} s, then {launches(place.run)}")
        place.finish()
        same_end(place)
    finally:
        kill(list(processes(tmp_path)))
        disk.close()


def cut(place, disk: LosingDisk, pid: int) -> None:
    """Everything stands still, the medium is copied, everything dies, the copy is mounted."""
    alive = [pid, *processes(place.home)]
    for one in alive:
        try:
            os.kill(one, signal.SIGSTOP)
        except ProcessLookupError:
            continue
    snapshot = disk.snapshot()
    while alive := ({pid} if place.over(pid) is None else set()) | processes(place.home).keys():
        kill(list(alive))
        time.sleep(0.1)
    disk.cut(snapshot)
