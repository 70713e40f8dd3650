"""The README's picture: one run from its `report.json`, as SVG.

python benchmarks/run_figure.py tuneloop_files/runs/<id> docs/run.svg
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"promoted": "#2a7f3f", "not promoted": "#b7791f", "failed": "#b03030"}
GREY = "#777777"


def draw(report: dict[str, Any], file: Path) -> None:
    """Left: the hypotheses with their validation scores and intervals. Right: the sealed test. The same bytes every time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = len(report["experiments"])
    figure = Figure(figsize=(11, 1.6 + 0.5 * rows), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3.2, 1))
    draw_experiments(left, report)
    draw_test(right, report)
    with mpl.rc_context({"svg.hashsalt": "run"}):
        figure.savefig(file, metadata={"Date": None})


def draw_experiments(axes: Axes, report: dict[str, Any]) -> None:
    """One row an experiment, the base model first; the incumbent's way as a line."""
    base = report["baseline"]["validation"]
    labels, incumbent = ["base model"], [base["value"]]
    _interval(axes, 0, base, GREY)
    for row, experiment in enumerate(report["experiments"], 1):
        labels.append(textwrap.shorten(f"{row}  {experiment['hypothesis']}", 62, placeholder=" …"))
        score = experiment["validation"]
        if score is None:
            axes.plot([0], [row], "x", color=COLOURS["failed"])
        else:
            _interval(axes, row, score, COLOURS[experiment["outcome"]])
        incumbent.append(score["value"] if experiment["outcome"] == "promoted" else incumbent[-1])
    axes.step(incumbent, range(len(incumbent)), where="pre", color=COLOURS["promoted"], alpha=0.5, label="incumbent")
    for name, colour in COLOURS.items():
        if any(e["outcome"] == name for e in report["experiments"]):
            axes.plot([], [], "x" if name == "failed" else "o", color=colour, label=name)
    axes.set(
        title=f"{report['benchmark']}: validation score and 95 % interval ({base['n']:,} items)",
        yticks=range(len(labels)),
        yticklabels=labels,
        xlim=(0, 100),
    )
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.legend(fontsize=8, loc="lower left")


def draw_test(axes: Axes, report: dict[str, Any]) -> None:
    """Base and best model on the sealed test, which was read once."""
    found = {"base": report["baseline"]["test"], "best": report["best"]["test"]}
    for place, (name, score) in enumerate((name, score) for name, score in found.items() if score):
        colour = COLOURS["promoted"] if name == "best" else GREY
        errors = [[score["value"] - score["low"]], [score["high"] - score["value"]]]
        axes.bar(name, score["value"], color=colour, alpha=0.8, yerr=errors, capsize=4)
        axes.text(place, score["high"] + 3, f"{score['value']:.1f}", ha="center")
    axes.set(title=f"sealed test ({found['base']['n']:,} items)", ylim=(0, 100))
    axes.grid(visible=True, axis="y", alpha=0.25)


def _interval(axes: Axes, row: int, score: dict[str, float], colour: str) -> None:
    errors = [[score["value"] - score["low"]], [score["high"] - score["value"]]]
    axes.errorbar([score["value"]], [row], xerr=errors, fmt="o", capsize=3, color=colour)


def main() -> None:
    """Reads a finished run and writes the picture."""
    parser = argparse.ArgumentParser(description="draw one finished run as SVG")
    parser.add_argument("run", type=Path, help="the run's folder, with report.json")
    parser.add_argument("file", type=Path, help="the SVG to write")
    arguments = parser.parse_args()
    draw(json.loads((arguments.run / "report.json").read_text(encoding="utf-8")), arguments.file)


if __name__ == "__main__":
    main()
