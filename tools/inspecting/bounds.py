"""The least and the most of any number of numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

MOST = sys.float_info.max


class Bounds:
    """What is not finite, and whole numbers beyond what a float can hold, have no place in a range."""

    def __init__(self) -> None:
        self.low: float | int | None = None
        self.high: float | int | None = None

    def add(self, values: Sequence[float]) -> None:
        """Take a batch in."""
        if not values:
            return
        low, high = min(values), max(values)
        if not -MOST <= low <= high <= MOST:
            self.add([value for value in values if -MOST <= value <= MOST])
            return
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def ends(self) -> tuple[float, ...]:
        """Least and most; nothing where nothing was added."""
        return () if self.low is None or self.high is None else (self.low, self.high)
