"""Random SIGKILLs of everything that takes part in a run; it ends as if nothing had been."""

from __future__ import annotations

import collections
import time

from .kills import Storm
from .world import FORM, launches, say, seeded


def test_random_kills(new_place, same_end, capsys) -> None:
    with capsys.disabled():
        rng = seeded("random kills")
    killed, began = collections.Counter[str](), time.monotonic()
    while killed.total() < FORM.kills:
        storm = Storm(new_place("kills"), rng, killed)
        storm.blow(FORM.kills)
        with capsys.disabled():
            say(
                f"{killed.total()} kills in {time.monotonic() - began:.0f} s: {dict(killed)}; {launches(storm.place.run)}"
            )
        same_end(storm.place)
