"""The power goes: whatever was not synced is lost; the run goes on from what the medium holds, or says what is gone."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from .disks import LosingDisk
from .kills import kill
from .world import launches, processes, say

pytestmark = pytest.mark.slow
CUTS = 5
GAP = 6.0


def test_power_cuts(new_place, tmp_path, same_end, capsys) -> None:
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    rng, disk, began = random.Random(seed), LosingDisk(tmp_path / "disk"), time.monotonic()
    with capsys.disabled():
        say(f"power cuts: CRASH_SEED={seed}")
    try:
        place = new_place("power", home=tmp_path / "disk" / "home")
        # The disk is young: what made the home is there for good.
        os.sync()
        for _ in range(CUTS):
            pid = place.start(log=str(tmp_path / "log"), cwd="/")
            time.sleep(rng.uniform(0.2, 2 * GAP))
            cut(place, disk, pid)
        with capsys.disabled():
            say(f"{CUTS} power cuts, {time.monotonic() - began:.0f} s, then {launches(place.run)}")
        code = place.drive(log=str(tmp_path / "log"), cwd="/")
        assert code == 0, (tmp_path / "log").read_text()[-3000:]
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
