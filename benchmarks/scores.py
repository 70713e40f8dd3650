"""What a run is worth: how far its best model comes between a naive recipe and an oracle, on the sealed test."""

from __future__ import annotations

from figures import figure
from place import Place
from value import compared
from whole_run import timed_run


@figure("way from the naive recipe to the oracle", "share", ">= 0.8", by_default=False)
def way(place: Place) -> float:
    """Naive and oracle are trained and measured here, with the seed of the whole run; minutes."""
    found = compared(place.once(timed_run).run, place.settings)
    place.note("scores on the sealed test", found)
    return float(found["way"])
