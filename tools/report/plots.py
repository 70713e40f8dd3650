"""The report's plots as PNG: validation score per experiment with intervals, training losses, time of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuneloop.core.experiment import Experiment, Journal
from tuneloop.core.score import Score
from tuneloop.tools.report.data import Curve
from tuneloop.tools.report.timing import longest_experiments
from tuneloop.tools.report.turns import NodeTime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"promoted": "#2a7f3f", "not promoted": "#b7791f", "failed": "#b03030"}
DPI = 120
BARS = 24


def new_figure(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """An empty plot with its title and axes named."""
    # matplotlib takes half a second to import: only a run that draws pays for it.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(visible=True, alpha=0.25)
    return figure, axes


def draw_scores(path: Path, metric: str, baseline: Score, journal: Journal) -> None:
    """Validation score of every experiment with its 95 % interval, the base model's, and the incumbent's way."""
    figure, axes = new_figure("Validation score, 95 % intervals", "experiment", f"{metric} (0-100)")
    axes.axhspan(baseline.low, baseline.high, color="#888888", alpha=0.15)
    axes.axhline(baseline.value, color="#555555", linestyle="--", label=f"base model {baseline.value:.1f}")
    for outcome, colour in COLOURS.items():
        _points(axes, [e for e in journal.experiments if e.outcome == outcome], outcome, colour)
    _incumbent(axes, baseline, journal)
    axes.set_xticks([e.number for e in journal.experiments] or [0])
    axes.set_ylim(0, 100)
    axes.legend(loc="best", fontsize=8)
    save_figure(figure, path)


def _points(axes: Axes, experiments: list[Experiment], outcome: str, colour: str) -> None:
    if not experiments:
        return
    numbers = [e.number for e in experiments]
    if outcome == "failed":
        axes.plot(numbers, [0] * len(numbers), "x", color=colour, label=outcome, clip_on=False)
        return
    scores = [e.score for e in experiments if e.score is not None]
    below, above = [s.value - s.low for s in scores], [s.high - s.value for s in scores]
    values = [s.value for s in scores]
    axes.errorbar(numbers, values, yerr=[below, above], fmt="o", capsize=4, color=colour, label=outcome)


def _incumbent(axes: Axes, baseline: Score, journal: Journal) -> None:
    way = [(0, baseline.value)]
    way += [(e.number, e.score.value) for e in journal.experiments if e.outcome == "promoted" and e.score is not None]
    last = journal.experiments[-1].number if journal.experiments else 0
    steps, values = zip(*way, (last, way[-1][1]), strict=True)
    axes.step(steps, values, where="post", color=COLOURS["promoted"], alpha=0.6, label="incumbent")
    if journal.best and journal.best.score:
        value = journal.best.score.value
        axes.plot(
            [journal.best.number], [value], "*", markersize=16, color=COLOURS["promoted"], label="best experiment"
        )


def draw_losses(path: Path, losses: Mapping[int, Curve]) -> None:
    """Training loss over optimizer steps, one line an experiment."""
    figure, axes = new_figure("Training loss", "optimizer step", "loss")
    for number, curve in sorted((n, c) for n, c in losses.items() if c):
        steps, values = zip(*curve, strict=True)
        axes.plot(steps, values, label=f"experiment {number}", marker="." if len(curve) < 3 else None)
    axes.legend(loc="best", fontsize=8)
    save_figure(figure, path)


def draw_times(path: Path, times: Sequence[NodeTime]) -> None:
    """Where the time went: a bar an experiment (of many those that took longest), a colour a node."""
    rows = longest_experiments(times, BARS)
    figure, axes = new_figure("Where the time went", "minutes", "experiment")
    labels = ["run" if n == 0 else str(n) for n in rows]
    start = [0.0] * len(rows)
    for name in dict.fromkeys(part.node for part in times):
        widths = [sum(part.seconds for part in parts if part.node == name) / 60 for parts in rows.values()]
        axes.barh(labels, widths, left=start, label=name)
        start = [begin + width for begin, width in zip(start, widths, strict=True)]
    axes.invert_yaxis()
    axes.legend(loc="best", fontsize=8)
    save_figure(figure, path)


def save_figure(figure: Figure, path: Path) -> None:
    """As PNG, the same bytes for the same plot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
