"""Random SIGKILLs of everything that takes part in a run; it ends as if nothing had been."""

from __future__ import annotations

import os
import random
import time

import pytest

from .kills import Storm
from .world import launches, say

pytestmark = pytest.mark.slow
KILLS = 30


def test_thirty_random_kills(new_place, same_end, capsys) -> None:
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    place = new_place("kills")
    storm, began = Storm(place, random.Random(seed)), time.monotonic()
    with capsys.disabled():
        say(f"random kills: CRASH_SEED={seed}")
    storm.blow(KILLS)
    with capsys.disabled():
        say(f"{storm.killed.total()} kills in {time.monotonic() - began:.0f} s: {dict(storm.killed)}")
    assert storm.killed.total() >= KILLS // 2, launches(place.run)
    same_end(place)
