"""Lengths of any number of values: least, mean, percentiles and most, all exact."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuneloop.tools.raw_data.facts import LengthStats

# The least and the most of any number of numbers.

MOST = sys.float_info.max


class ValueRange:
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


# How many different values there are among any number of them, in memory that does not grow: exact for few, then by sample.

U64 = npt.NDArray[np.uint64]
LEAST = 1 << 14  # hashes that wait for the next sorting


class DistinctCount:
    """Hashes of values; beyond `most` different ones only those below a threshold are kept, half as many each time.

    With 131,072 kept the estimate is wrong by at most 0.4 % (one standard error).
    """

    def __init__(self, most: int = 1 << 17) -> None:
        self.most, self.halvings = most, 0
        self._kept: U64 = np.zeros(0, np.uint64)
        self._waiting: list[U64] = []
        self._held = 0

    def add(self, hashes: U64) -> None:
        """Take a batch in."""
        if self.halvings:
            hashes = hashes[hashes < self._threshold]
        self._waiting.append(hashes)
        self._held += len(hashes)
        if self._held > max(LEAST, len(self._kept)):  # so that each value is sorted a few times only
            self._settle()

    def _settle(self) -> None:
        found = np.sort(
            np.concatenate([self._kept, *self._waiting])
        )  # `unique` looks them up in a table, which is slower
        self._kept = found[np.concatenate([found[:1] == found[:1], found[1:] != found[:-1]])]
        self._waiting, self._held = [], 0
        while len(self._kept) > self.most:
            self.halvings += 1
            self._kept = self._kept[self._kept < self._threshold]

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        self._settle()
        return {"halvings": self.halvings, "kept": b64encode(self._kept.tobytes()).decode()}

    def merge(self, state: dict[str, Any]) -> None:
        """Take in what another one has seen: the same as if this one had seen it."""
        self.halvings = max(self.halvings, state["halvings"])
        self._settle()
        if self.halvings:
            self._kept = self._kept[self._kept < self._threshold]
        self.add(np.frombuffer(b64decode(state["kept"]), np.uint64))

    @property
    def _threshold(self) -> np.uint64:
        return np.uint64(1 << (64 - self.halvings))

    @property
    def count(self) -> int:
        """Different values: exact, or an estimate."""
        self._settle()
        return len(self._kept) << self.halvings

    @property
    def exact(self) -> bool:
        """Whether `count` is no estimate."""
        self._settle()
        return self.halvings == 0


USUAL = 1 << 16
WAITING = 1 << 14


class LengthHistogram:
    """A histogram of the usual lengths; those beyond 65,535 are kept one by one."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._long: list[npt.NDArray[np.int64]] = []
        self._waiting: list[int] = []

    def add(self, sizes: Iterable[int]) -> None:
        """Take a batch in."""
        self._waiting.extend(sizes)
        if len(self._waiting) >= WAITING:
            self._settle()

    def _settle(self) -> None:
        new = np.array(self._waiting, np.int64)
        self._waiting = []
        if len(new) and new.max() >= USUAL:
            self._long.append(new[new >= USUAL])
            new = new[new < USUAL]
        counts = np.bincount(new, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        self._settle()
        return {"counts": self._counts.tolist(), "long": [size for part in self._long for size in part.tolist()]}

    def merge(self, state: dict[str, Any]) -> None:
        """Take in what another one has seen."""
        self._settle()
        counts = np.zeros(max(len(self._counts), len(state["counts"])), np.int64)
        counts[: len(self._counts)] += self._counts
        counts[: len(state["counts"])] += np.array(state["counts"], np.int64)
        self._counts = counts
        self._long.append(np.array(state["long"], np.int64))

    def spread(self) -> LengthStats | None:
        """The facts; None where nothing was added."""
        self._settle()
        long = np.sort(np.concatenate(self._long)) if self._long else np.zeros(0, np.int64)
        below = np.cumsum(self._counts)
        usual = int(below[-1]) if len(below) else 0
        n = usual + len(long)
        if not n:
            return None

        def at(share: float) -> int:
            rank = min(n - 1, int(share * n))
            return int(np.searchsorted(below, rank, "right")) if rank < usual else int(long[rank - usual])

        total = int(self._counts @ np.arange(len(self._counts))) + int(long.sum())
        return LengthStats(n=n, min=at(0), mean=round(total / n, 1), p50=at(0.5), p99=at(0.99), max=at(1))


def length_stats(sizes: Iterable[int]) -> LengthStats | None:
    """The facts of a few."""
    found = LengthHistogram()
    found.add(sizes)
    return found.spread()
