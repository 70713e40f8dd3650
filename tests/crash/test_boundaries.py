"""A run whose orchestrator is killed once at every write and rename boundary, one after the other."""

from __future__ import annotations

import collections
import time

from .world import FORM, begun, launches, say

KINDS = {"inside write", "after write", "after open", "after replace", "after mkdir", "before start", "after start"}
KINDS |= {"before commit", "after commit", "after symlink"}
LEAST = 150


def test_killed_at_every_boundary(new_place, same_end, capsys) -> None:
    place = new_place("boundaries")
    seen, past = place.home.parent / "seen", place.home.parent / "past"
    seen.touch()
    began, kills = time.monotonic(), 0
    while (code := place.drive(seen=str(seen), past=str(past), every=FORM.every)) == -9:
        kills += 1
    reached = seen.read_text().splitlines()
    counted = collections.Counter(" ".join(name.split()[:2]) for name in reached)
    with capsys.disabled():
        say(f"{kills} boundaries in {time.monotonic() - began:.0f} s: {dict(counted)}")
    assert code == 0, place.said()
    assert kills == len(reached) == len(set(reached)) >= LEAST
    assert set(counted) >= KINDS
    assert past.read_text().splitlines() == [] if past.exists() else True
    assert set(begun(place.run).values()) == {1}, launches(place.run)
    same_end(place)
