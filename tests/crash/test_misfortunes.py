"""One run that meets everything but a kill: SIGTERM, two orchestrators, jumping clocks, torn, truncated and lost files."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from .kills import kill, victims
from .world import Place, launches, until

pytestmark = pytest.mark.slow
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


def events(place: Place) -> str:
    file = place.run / "events.jsonl"
    return file.read_text(errors="replace") if file.is_file() else ""


def at(place: Place, pid: int, node: str) -> None:
    """Wait until a node began."""
    mark = f'"node_started","node":"{node}"'

    def there() -> bool:
        assert place.over(pid) is None, place.said()
        return mark in events(place)

    until(there)


def kill_all(place: Place, pid: int) -> None:
    kill([pid])
    place.wait(pid)
    while there := [p for pids in victims(place.home).values() for p in pids]:
        kill(there)
        time.sleep(0.1)


def test_one_run_through_everything(new_place, same_end) -> None:
    place = new_place("misfortunes")
    sigterm_in_prepare(place)
    two_at_once(place)
    torn_event_line(place)
    checkpoint_file_is_gone(place)
    newest_training_checkpoint_is_cut(place)
    end_of_training_was_not_told(place)
    database_page_is_overwritten(place)
    place.finish()
    same_end(place)


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
    log = place.home.parent / "second.log"
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
    """Everything dies while it trains and the newest checkpoint is only half there."""
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


def whole(model: Path) -> list[Path]:
    found = [p for p in model.glob("checkpoint-*") if (p / "trainer_state.json").is_file()]
    return sorted(found, key=lambda p: int(p.name.split("-")[1]))


def end_of_training_was_not_told(place: Place) -> None:
    """The supervisor dies between the end of the training and `exit.json`: whoever goes on must not train further."""
    pid = place.start()
    jobs, model = place.run / "experiments" / "001" / "jobs", place.run / "experiments" / "001" / "model"
    until(lambda: (jobs / "train.2" / "exit.json").is_file() or place.over(pid) is not None, 300, 0.02)
    kill_all(place, pid)
    assert (model / "model.safetensors").is_file(), (place.said(), launches(place.run))
    for name in ("training.json", "scores.json"):
        (model.parent / name).unlink(missing_ok=True)
    (jobs / "train.2" / "exit.json").unlink()


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
