"""How many validation items a run measures: as many as are cheap, judged by what the first ones took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIZES = (100, 200, 500, 1000, 2000)
SMALLEST = SIZES[0]
USUAL_EXPERIMENT = 600.0  # seconds, where nothing says how long one may take


@dataclass(frozen=True)
class Size:
    """`limit`: items of each benchmark at most, None: all there are. `why`: the reason, for people."""

    limit: int | None
    why: str


def seconds_of_experiment(timeout: float | None, loop_n: int | None) -> float:
    """What one experiment may take: the run's time, shared alike, where time and number are given."""
    return timeout / loop_n if timeout and loop_n else USUAL_EXPERIMENT


def choose_size(there: Sequence[int], seconds_each: Mapping[int, float], affordable: float) -> Size:
    """The most of `SIZES`, or all there are, whose measuring fits into `affordable` seconds; `SMALLEST` at least.

    `there`: validation items of each benchmark; `seconds_each`: seconds for one item, by the benchmark's place.
    """
    most = max(there)
    for limit in sorted({*(size for size in SIZES if size < most), most}, reverse=True):
        if limit > SIZES[-1]:
            continue
        seconds = sum(min(limit, count) * seconds_each[place] for place, count in enumerate(there))
        if seconds <= affordable or limit == min(SMALLEST, most):
            return Size(limit, f"measuring takes about {seconds:.0f} s, and {affordable:.0f} s may be spent on it")
    raise ValueError("there are no validation items")
