"""Lengths of any number of values: least, mean, percentiles and most, all exact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tuneloop.tools.inspecting.facts import Spread

USUAL = 1 << 16
WAITING = 1 << 14


class Sizes:
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

    def spread(self) -> Spread | None:
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
        return Spread(n=n, min=at(0), mean=round(total / n, 1), p50=at(0.5), p99=at(0.99), max=at(1))


def spread_of(sizes: Iterable[int]) -> Spread | None:
    """The facts of a few."""
    found = Sizes()
    found.add(sizes)
    return found.spread()
