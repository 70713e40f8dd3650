"""How busy slots are when an idea waits for results up to a window before it: `python benchmarks/window.py`.

Experiments take times of a log-normal distribution; some fail after a tenth of theirs. Nothing runs.
"""

from __future__ import annotations

import heapq
import math
import random
from statistics import fmean

EXPERIMENTS, TRIALS, EARLY = 200, 40, 0.1


def durations(spread: float, failing: float, rng: random.Random) -> list[float]:
    """Times of mean 1 with this coefficient of variation; a share of `failing` ends early."""
    sigma = math.sqrt(math.log(1 + spread * spread))
    drawn = (math.exp(rng.gauss(-sigma * sigma / 2, sigma)) for _ in range(EXPERIMENTS))
    return [one * (EARLY if rng.random() < failing else 1.0) for one in drawn]


def utilisation(took: list[float], slots: int, window: int) -> float:
    """Share of the slots' time that is worked in, where experiment k begins when 1 to k - window are over."""
    free, closed = [0.0] * slots, list[float]()
    for number, seconds in enumerate(took):
        begun = max(heapq.heappop(free), closed[number - window] if number >= window else 0.0)
        heapq.heappush(free, begun + seconds)
        closed.append(max(begun + seconds, closed[-1] if closed else 0.0))
    return sum(took) / closed[-1] / slots


def main() -> None:
    """Print a line for each number of slots and each spread."""
    for slots in (2, 4, 8):
        for spread, failing in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.15), (0.7, 0.15)):
            drawn = [durations(spread, failing, random.Random(seed)) for seed in range(TRIALS)]
            found = {
                window: fmean(utilisation(took, slots, window) for took in drawn)
                for window in (slots, slots + slots // 2, 2 * slots, EXPERIMENTS)
            }
            said = ", ".join(f"window {window}: {share:.2f}" for window, share in found.items())
            print(f"{slots} slots, spread {spread}, failing {failing}: {said}")


if __name__ == "__main__":
    main()
