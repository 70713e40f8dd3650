"""The figure of docs/acceptance.md: what four rules of promotion would deliver after so many experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean

import numpy as np
from climb_runs import BASE, SEALED, Items, Rule, Scenario, climb, measures_better

from tuneloop.tools.statistics import Paired
from tuneloop.tools.statistics.paired import mcnemar_exact

EXPERIMENTS = 40
PANELS = {
    "200 validation items": Scenario(-0.5, 2, EXPERIMENTS, 200),
    "1,000 validation items": Scenario(-0.5, 2, EXPERIMENTS, 1_000),
    "200 items, experiments harm": Scenario(-1, 0.5, EXPERIMENTS, 200),
}


def counts(found: Paired) -> tuple[int, int]:
    """Items won and lost."""
    return sum(d > 0 for d in found.differences), sum(d < 0 for d in found.differences)


def proved(found: Paired) -> bool:
    """An exact one-sided test says so at 5 %, divided by the experiments planned."""
    return found.better and mcnemar_exact(*counts(found)) <= 0.05 / EXPERIMENTS


def above_one_error(found: Paired) -> bool:
    """The gain is above one standard error of the paired difference."""
    if not found.better:
        return False
    n, gain = len(found.candidate), found.gain / 100
    return gain > math.sqrt((sum(counts(found)) / n - gain**2) / n)


RULES: dict[str, tuple[Rule, bool]] = {  # the rule, and whether the base model may be kept at the end
    "any gain, base may be kept: tuneloop": (measures_better, True),
    "any gain": (measures_better, False),
    "gain above one standard error": (above_one_error, False),
    f"proved at 5 % / {EXPERIMENTS}": (proved, False),
}
LOOKS = (("#2a7f3f", "-"), ("#b7791f", "--"), ("#2b6cb0", "-"), ("#888888", "-"))


def path(scenario: Scenario, rule: Rule, may_keep_base: bool, seed: Sequence[int]) -> list[float]:
    """True gain of what a run delivers if it ends after 0, 1, 2 … experiments, in points."""
    rng, sealed_rng = (np.random.default_rng((*seed, i)) for i in range(2))
    sealed = Items(SEALED, sealed_rng)
    base, incumbent, gains = sealed.answers(BASE), BASE, [0.0]
    for accuracy in climb(scenario, rng, rule):
        if accuracy is None or accuracy == incumbent:
            gains.append(gains[-1])
            continue
        incumbent = accuracy
        found = Paired(sealed.answers(accuracy), base, sealed.clusters)
        gains.append(0.0 if may_keep_base and found.gain < 0 else 100 * (accuracy - BASE))
    return gains


def mean_path(panel: str, rule: str, runs: int) -> list[float]:
    """The mean of many runs; every rule sees the same ones."""
    found = [path(PANELS[panel], *RULES[rule], (1, i)) for i in range(runs)]
    return [fmean(gains) for gains in zip(*found, strict=True)]


def draw(file: Path, runs: int, processes: int) -> None:
    """Mean true gain by number of experiments: a panel for each scenario, a line for each rule. The file is reproducible."""
    import matplotlib as mpl  # half a second to import
    from matplotlib.figure import Figure

    with ProcessPoolExecutor(processes) as pool:
        lines = {(panel, rule): pool.submit(mean_path, panel, rule, runs) for panel in PANELS for rule in RULES}
        found = {key: future.result() for key, future in lines.items()}
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    places = figure.subplots(1, len(PANELS))
    places[1].sharey(places[0])
    for axes, panel in zip(places, PANELS, strict=True):
        for rule, (colour, style) in zip(RULES, LOOKS, strict=True):
            axes.plot(found[panel, rule], color=colour, linestyle=style, label=rule)
        axes.set(title=panel, xlabel="experiments", xlim=(0, EXPERIMENTS))
        axes.grid(visible=True, alpha=0.25)
    places[0].set_ylabel("mean true gain of the delivered model, points")
    places[0].legend(fontsize=8, loc="upper left")
    with mpl.rc_context({"svg.hashsalt": "climb"}):
        figure.savefig(file, metadata={"Date": None})
