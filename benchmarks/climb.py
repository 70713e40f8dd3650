"""How much true gain the rule of promotion delivers, and whether claims are true: thousands of simulated runs.

`python benchmarks/climb.py` prints the rows; the exit status is 1 when a goal is missed.
`python benchmarks/climb.py --figure docs/acceptance.svg` draws the figure of docs/acceptance.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves a script's own folder out

from climb_figure import draw
from climb_runs import DIFFER, Opening, Scenario, run_of_told_gain, whole_run
from figures import FIGURES, figure, row, table
from place import Place

SEED, RUNS, SMALL, PARTS, PROCESSES = 23, 2_000, 40, 10, 2
HELPFUL = [Scenario(-0.5, 2, *size) for size in ((10, 30), (10, 200), (40, 200), (40, 1_000))]
RARE = [Scenario(-1, 2, *size) for size in ((40, 200), (40, 1_000))]
HARMFUL = [Scenario(-1, 0.5, *size) for size in ((10, 30), (10, 200), (40, 200), (40, 1_000))]
USELESS = [Scenario(0, 0, *size) for size in ((10, 30), (40, 200), (40, 1_000))]
TOLD = (DIFFER, 0.2)  # as in all other runs, and as `tools/statistics/power.py` assumes
Kind = Scenario | float  # a float: candidates of the told gain, with this share of items on which equal models differ
KINDS: tuple[Kind, ...] = (*HELPFUL, *RARE, *HARMFUL, *USELESS, *TOLD)
Run = Opening | None


@dataclass(frozen=True)
class Simulated:
    """All runs by kind, and the CPU seconds that they took."""

    runs: dict[Kind, list[Run]]
    cpu: float

    @property
    def openings(self) -> list[Opening]:
        """Of all runs with a candidate."""
        return [run for runs in self.runs.values() for run in runs if run]

    def delivered(self, scenario: Scenario) -> list[float]:
        """True gain of what each run delivers."""
        return [run.delivered if run else 0.0 for run in self.runs[scenario]]

    def claimed(self, kind: Kind) -> float:
        """Percent of the runs that claim a better model."""
        return 100 * fmean(bool(run and run.claimed) for run in self.runs[kind])


def part(kind: Kind, seed: Sequence[int], count: int) -> tuple[list[Run], float]:
    """Some runs of one kind, and their CPU seconds."""
    rng, began = np.random.default_rng(seed), time.process_time()
    runs = [whole_run(kind, rng) if isinstance(kind, Scenario) else run_of_told_gain(kind, rng) for _ in range(count)]
    return runs, time.process_time() - began


def simulate(runs: int) -> Simulated:
    """So many runs of each kind; always the same ones."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        parts = {
            kind: [pool.submit(part, kind, (SEED, i, k), runs // PARTS) for k in range(PARTS)]
            for i, kind in enumerate(KINDS)
        }
        done = {kind: [future.result() for future in futures] for kind, futures in parts.items()}
    found = {kind: [run for some, _ in of for run in some] for kind, of in done.items()}
    return Simulated(found, sum(cpu for of in done.values() for _, cpu in of))


def measured(place: Place) -> Simulated:
    """For `make bench`; what is behind the rows goes into `details.json`."""
    found = simulate(SMALL if place.small else RUNS)
    place.note("climb", {str(kind): details(runs) for kind, runs in found.runs.items()})
    return found


def details(runs: Sequence[Run]) -> dict[str, float]:
    """Of one kind of runs."""
    openings, gains = [run for run in runs if run], [run.delivered if run else 0.0 for run in runs]
    return {
        "runs": len(runs),
        "with a candidate": len(openings),
        "mean true gain": fmean(gains),
        "5th percentile": float(np.percentile(gains, 5)),
        "base kept": sum(run.gain < 0 for run in openings),
        "claimed": sum(run.claimed for run in openings),
        "claimed but no better": sum(run.claimed and run.truth <= 0 for run in openings),
        "test and interval disagree": sum(run.disputed for run in openings),
        "interval holds the truth": sum(run.covered for run in openings),
    }


@dataclass(frozen=True)
class Row:
    """A row of `make bench`."""

    name: str
    unit: str
    goal: str
    value: Callable[[Simulated], float]

    def measure(self, place: Place) -> float:
        """All rows are taken from one simulation."""
        return self.value(place.once(measured))


def mean_gain(scenario: Scenario, goal: str) -> Row:
    """Of all runs."""
    return Row(f"true gain of what is delivered, {scenario}", "points", goal, lambda s: fmean(s.delivered(scenario)))


def low_gain(scenario: Scenario, goal: str) -> Row:
    """One run in twenty delivers less."""
    name = f"5th percentile of what is delivered, {scenario}"
    return Row(name, "points", goal, lambda s: float(np.percentile(s.delivered(scenario), 5)))


def width(found: Simulated) -> float:
    """Mean width of the intervals by that of the normal ones."""
    return fmean(run.high - run.low for run in found.openings) / fmean(run.normal_width for run in found.openings)


ROWS = (
    mean_gain(HELPFUL[0], ">= 0.8"),
    mean_gain(HELPFUL[2], ">= 9.8"),
    mean_gain(HELPFUL[3], ">= 18.5"),
    low_gain(HELPFUL[3], ">= 8"),
    mean_gain(RARE[0], ">= 5.5"),
    mean_gain(RARE[1], ">= 11.8"),
    *(mean_gain(scenario, ">= -0.5") for scenario in HARMFUL),
    Row("claims where nothing helps", "%", "<= 5", lambda s: max(map(s.claimed, USELESS))),
    Row("claims of the gain that was told", "%", ">= 75", lambda s: min(map(s.claimed, TOLD))),
    Row("sealed intervals with the truth", "%", ">= 94", lambda s: 100 * fmean(run.covered for run in s.openings)),
    Row("width of sealed intervals, ours / normal", "ratio", "<= 1.1", width),
    Row("all simulated runs", "CPU s", "<= 240", lambda s: s.cpu),
)
for one in ROWS:
    figure(one.name, one.unit, one.goal)(one.measure)


def main() -> int:
    """The rows for people; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each kind (default: {RUNS})")
    parser.add_argument("--figure", type=Path, metavar="SVG", help="draw the figure instead")
    parser.add_argument("--details", action="store_true", help="print each kind of runs as well")
    given = parser.parse_args()
    if given.figure:
        draw(given.figure, given.runs, PROCESSES)
        return 0
    found = simulate(given.runs)
    if given.details:
        for kind, runs in found.runs.items():
            print(kind, details(runs))
    rows = [row(FIGURES[one.name], one.value(found)) for one in ROWS]
    print(table(rows))
    return int(not all(r["ok"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
