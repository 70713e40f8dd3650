"""How busy nodes are when an idea waits for results up to a window before it: `python benchmarks/window.py`.

Experiments take times of a log-normal distribution; some fail after a tenth of theirs. Nothing runs.
"""

from __future__ import annotations

import heapq
import math
import random
from statistics import fmean

TRIALS, EARLY = 40, 0.1


def durations(experiments: int, spread: float, failing: float, rng: random.Random) -> list[float]:
    """Times of mean 1 with this coefficient of variation; a share of `failing` ends early."""
    sigma = math.sqrt(math.log(1 + spread * spread))
    drawn = (math.exp(rng.gauss(-sigma * sigma / 2, sigma)) for _ in range(experiments))
    return [one * (EARLY if rng.random() < failing else 1.0) for one in drawn]


def utilisation(took: list[float], nodes: int, slots: int, window: int) -> tuple[float, float]:
    """Share of the nodes' time that is worked in: of the whole run, and until the last experiment has a node.

    Experiment k begins when a slot is free and 1 to k - window are over; where there are more slots than nodes it waits for one.
    """
    places, free, closed, worked = [0.0] * slots, [0.0] * nodes, list[float](), list[tuple[float, float]]()
    for number, seconds in enumerate(took):
        begun = max(heapq.heappop(places), closed[number - window] if number >= window else 0.0)
        begun = max(begun, heapq.heappop(free))
        for heap in (places, free):
            heapq.heappush(heap, begun + seconds)
        worked.append((begun, begun + seconds))
        closed.append(max(begun + seconds, closed[-1] if closed else 0.0))
    last = max(begun for begun, _ in worked)
    until = sum(min(end, last) - begun for begun, end in worked)
    return sum(took) / closed[-1] / nodes, until / last / nodes


def told(experiments: int, nodes: int, slots: int, windows: tuple[int, ...], spread: float, failing: float) -> str:
    """One row."""
    drawn = [durations(experiments, spread, failing, random.Random(seed)) for seed in range(TRIALS)]
    found = []
    for window in windows:
        whole, until = zip(*(utilisation(took, nodes, slots, window) for took in drawn), strict=True)
        found.append(f"window {window}: {fmean(whole):.2f} ({fmean(until):.2f})")
    return f"{nodes} nodes, {slots} slots, spread {spread}, failing {failing}: {', '.join(found)}"


def main() -> None:
    """A line for each number of nodes and each spread; in parentheses until the last experiment has begun."""
    for slots in (2, 4, 8, 16, 32):
        windows = (slots, slots + slots // 2, 2 * slots, 200)
        for spread, failing in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.15), (0.7, 0.15)):
            print(told(200, slots, slots, windows, spread, failing))
    for slots in (100, 150, 200, 256):
        for spread in (0.3, 0.7):
            print(told(1000, 100, slots, (slots + slots // 2, 2 * slots, 3 * slots, 1000), spread, 0.15))


if __name__ == "__main__":
    main()
