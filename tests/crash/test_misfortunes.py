"""One run that meets everything else.

SIGTERM, two orchestrators at once, jumping clocks, a full disk, a read-only disk, torn, truncated, overwritten and lost
files. Each moment is a function; in between the run is resumed as anybody would.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.waiting import until

from .disks import fill, free, memory_disk, mount
from .kills import kill, victims
from .world import Place, events, launches, load, processes

# Wall-clock time jumps a year ahead and two days back, every second anew.
JUMPING = """
import datetime, time
clock, began = time.time, time.monotonic()
def shift(): return (0, 31_536_000, -172_800)[int(time.monotonic() - began) % 3]
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None): return datetime.datetime.now(tz) + datetime.timedelta(seconds=shift())
time.time = lambda: clock() + shift()
time.time_ns = lambda: int(time.time() * 1e9)
import sys
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("tuneloop.") and getattr(module, "datetime", None) is datetime.datetime:
        module.datetime = Jumping
"""


def at(place: Place, pid: int, node: str, again: int = 0) -> None:
    """Wait until a node began; `again`: in this session, `again` bytes of events are older."""
    mark = f'"node_started","node":"{node}"'

    def there() -> bool:
        assert place.over(pid) is None, place.said()
        return mark in events(place)[again:]

    until(there)


def kill_all(place: Place, pid: int) -> None:
    kill([pid])
    place.wait(pid)
    while there := [p for pids in victims(place.home).values() for p in pids]:
        kill(there)
        time.sleep(0.1)


def test_one_run_through_everything(new_place, tmp_path, same_end) -> None:
    with memory_disk(tmp_path / "disk") as disk:
        place = new_place("misfortunes", disk)
        try:
            sigterm_in_prepare(place)
            two_at_once(place)
            torn_event_line(place)
            checkpoint_file_is_gone(place)
            full_disk(place, disk, "smoke_run", 200_000)
            read_only_disk(place, disk)
            newest_training_checkpoint_is_cut(place)
            full_disk(place, disk, "train", 3_000_000)
            end_of_training_was_not_told(place)
            database_page_is_overwritten(place)
            full_disk(place, disk, "finish", 0)
            place.finish()
            same_end(place)
        finally:
            kill(list(processes(disk)))


def sigterm_in_prepare(place: Place) -> None:
    """The orchestrator ends, at once and resumable; its job goes on."""
    pid = place.start()
    at(place, pid, "prepare")
    until(lambda: (place.run / "baseline" / "jobs" / "evaluate.1" / "lock").is_file())
    os.kill(pid, signal.SIGTERM)
    assert place.wait(pid) in (-15, 143, 130, 1, 0), place.said()
    assert not place.finished


def two_at_once(place: Place) -> None:
    """The second is refused in one line that says who works on the run; the first is not disturbed.

    The clocks of the first jump all the time.
    """
    first = place.start(prepare=JUMPING)
    until(lambda: "pid" in (place.run / "lock").read_text() and str(first) in (place.run / "lock").read_text())
    log = place.log.with_name("second.log")
    second = place.start(log=str(log))
    assert place.wait(second) == 2, log.read_text()
    assert f"pid {first}" in log.read_text().splitlines()[-1]
    at(place, first, "validate")
    kill([first])
    place.wait(first)


def torn_event_line(place: Place) -> None:
    """A power cut in the middle of a line."""
    with (place.run / "events.jsonl").open("a") as f:
        f.write('{"at":"2026-01-01T00:00:00Z","kind":"node_fin')


def checkpoint_file_is_gone(place: Place) -> None:
    """Somebody deleted it."""
    for file in place.run.glob("checkpoint.sqlite*"):
        file.unlink()


def newest_training_checkpoint_is_cut(place: Place) -> None:
    """Everything dies while it trains; the newest checkpoint is half there, the engine's cache of the data is empty."""
    pid = place.start()
    model = place.run / "experiments" / "001" / "model"

    def two() -> bool:
        assert place.over(pid) is None, place.said()
        return len(whole(model)) >= 2

    until(two, 300, 0.02)
    kill_all(place, pid)
    newest = whole(model)[-1]
    for file in newest.glob("*.safetensors"):
        os.truncate(file, file.stat().st_size // 2)
    caches = list((place.run / "experiments" / "001" / "work" / "train").rglob("dataset_info.json"))
    caches = [cache for cache in caches if "hf" in cache.parts]
    assert caches, "the engine keeps its tokenized rows elsewhere: look there"
    for cache in caches:
        os.truncate(cache, 0)


def full_disk(place: Place, disk: Path, node: str, left: int) -> None:
    """It runs full in a node: the run pauses with one line; then there is room again."""
    before = len(events(place))
    pid = place.start()
    at(place, pid, node, before)
    fill(disk, left)
    code = until(lambda: [c] if (c := place.over(pid)) is not None else None, 300)[0]
    assert code == 1, (node, code, place.said())
    assert "Traceback" not in place.log.read_text(), (node, place.said())
    assert place.said(2).startswith("tuneloop: "), place.said()
    free(disk)


def read_only_disk(place: Place, disk: Path) -> None:
    """A resume says so in one line and changes nothing."""
    while there := [p for pids in victims(place.home).values() for p in pids]:
        kill(there)
        time.sleep(0.1)
    mount("-o", "remount,ro", str(disk))
    before, start = sorted((p, p.lstat().st_mtime_ns) for p in place.home.rglob("*")), len(place.log.read_text())
    assert place.drive() in (1, 2)
    said = place.log.read_text()[start:].splitlines()
    mount("-o", "remount,rw", str(disk))
    assert len(said) == 1, said
    assert said[0].startswith("tuneloop: "), said
    assert sorted((p, p.lstat().st_mtime_ns) for p in place.home.rglob("*")) == before


def whole(model: Path) -> list[Path]:
    found = [p for p in model.glob("checkpoint-*") if (p / "trainer_state.json").is_file()]
    return sorted(found, key=lambda p: int(p.name.split("-")[1]))


def end_of_training_was_not_told(place: Place) -> None:
    """The supervisor dies between the end of the training and `exit.json`: whoever goes on must not train further."""
    folder = place.run / "experiments" / "001"
    before = set(folder.glob("jobs/train.*/exit.json"))
    pid = place.start()

    def ended() -> list[Path]:
        assert place.over(pid) is None, place.said()
        return [p for p in folder.glob("jobs/train.*/exit.json") if p not in before and load(p)["code"] == 0]

    end = until(ended, 300, 0.02)[0]
    kill_all(place, pid)
    assert (folder / "model" / "model.safetensors").is_file(), (place.said(), launches(place.run))
    for name in ("training.json", "scores.json"):
        (folder / name).unlink(missing_ok=True)
    end.unlink()


def database_page_is_overwritten(place: Place) -> None:
    """A page of the checkpoint's database is noise."""
    pid = place.start()
    at(place, pid, "evaluate")
    kill([pid])
    place.wait(pid)
    file = place.run / "checkpoint.sqlite"
    pages = file.stat().st_size // 4096
    assert pages > 2
    with file.open("r+b") as f:
        for page in range(1, pages):
            f.seek(4096 * page)
            f.write(random.Random(page).randbytes(4096))
