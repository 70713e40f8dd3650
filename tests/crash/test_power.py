"""The power goes: whatever was not synced is lost; the run goes on from what the medium holds, or says what is gone."""

from __future__ import annotations

import os
import re
import signal
import time

from tests.waiting import until

from .disks import LosingDisk
from .kills import kill
from .world import FORM, events, launches, processes, say, seeded

GAP = 4.0
NODES = ("prepare", "smoke_run", "train", "finish")


def test_power_cuts(new_place, tmp_path, same_end, capsys) -> None:
    with capsys.disabled():
        rng = seeded("power cuts")
    disk, began = LosingDisk(tmp_path / "disk"), time.monotonic()
    try:
        place = new_place("power", tmp_path / "disk")
        # The disk is young: what made the home is there for good.
        os.sync()
        for number in range(FORM.cuts):
            before = len(events(place))
            pid = place.start()
            reached(place, pid, NODES[number * len(NODES) // FORM.cuts :], before)
            time.sleep(rng.uniform(0, GAP))
            cut(place, disk, pid)
        with capsys.disabled():
            say(f"{FORM.cuts} power cuts, {time.monotonic() - began:.0f} s, then {launches(place.run)}")
        place.finish()
        same_end(place)
    finally:
        kill(list(processes(tmp_path)))
        disk.close()


def reached(place, pid: int, nodes: tuple[str, ...], before: int) -> None:
    """Wait until this session is in one of `nodes`."""

    def there() -> bool:
        assert place.over(pid) is None, place.said()
        started = re.findall(r'"kind":"node_started".*?"node":"(\w+)"', events(place)[before:])
        return bool(set(started) & set(nodes))

    until(there)


def cut(place, disk: LosingDisk, pid: int) -> None:
    """Everything stands still, the medium is copied, everything dies, the copy is mounted."""
    alive = {pid, *processes(place.home)}
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
