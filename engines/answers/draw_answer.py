"""Run a reply's code that draws, and say what lies on its axes: `PYTHONPATH=.. python draw_answer.py DESCRIPTOR < ITEM.json`.

ITEM.json: code, files (name to text, put into the working folder), seconds. Goes to the descriptor: `[{"value": DRAWN}]`, or
`[{"error": ..}]` where the code did not come to its end. DRAWN is read from the last figure on which something was drawn, in
whatever way: lines, bars, points, wedges, areas, a list of numbers each. Without an item (`draw_answer.py`) it only makes the
cache of fonts. What would be right is not here.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas  # noqa: F401 - before the confinement is up; most replies read their table with it
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, Wedge
from one_answer import confine, tell

MEMORY = 4 << 30  # address space; libraries for numbers reserve much
MOST = 5_000  # numbers
Drawn = dict[str, Any]


class Seen:
    """All figures that were made, and what was on them when they were shown or saved."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.shown: dict[int, Drawn] = {}

    def watch(self) -> None:
        """Figures are noticed when they are made; showing and saving draws nothing."""
        made = Figure.__init__

        def make(figure: Figure, *args: Any, **named: Any) -> None:
            made(figure, *args, **named)
            self.figures.append(figure)

        Figure.__init__ = make
        Figure.savefig = lambda figure, *_, **__: self.look(figure)
        plt.show = lambda *_, **__: [self.look(figure) for figure in self.figures] and None

    def look(self, figure: Figure) -> None:
        """Keep what is on it, if anything: it may be cleared afterwards."""
        if any(found := drawn(figure)):
            self.shown[id(figure)] = found

    def last(self) -> Drawn:
        """What is on the last figure that has or had anything; {} where nothing was drawn."""
        for figure in self.figures:
            self.look(figure)
        return next((self.shown[id(f)] for f in reversed(self.figures) if id(f) in self.shown), {})


def drawn(figure: Figure) -> Drawn:
    """Kind to series; kinds of which there are none are left out."""
    found: dict[str, list[list[float | None]]] = {}
    for axes in figure.axes:
        for kind, series in on(axes):
            found.setdefault(kind, []).append([number(value) for value in series])
    return found


def on(axes: Axes) -> Iterator[tuple[str, Any]]:
    """Everything on one pair of axes that stands for numbers; helper lines across the whole plot do not."""
    for line in axes.get_lines():
        if line.get_transform() == axes.transData:
            marks = line.get_linestyle() in ("None", "none", " ", "") and axes.name != "polar"
            ys = line.get_ydata(orig=False)
            yield ("radar" if axes.name == "polar" else "points" if marks else "lines"), opened(ys, axes)
    bars = [p for p in axes.patches if isinstance(p, Rectangle) and p.get_data_transform() == axes.transData]
    if bars:
        yield "heights", [bar.get_height() for bar in bars]
        yield "widths", [bar.get_width() for bar in bars]
    if wedges := [p for p in axes.patches if isinstance(p, Wedge)]:
        yield "wedges", [(wedge.theta2 - wedge.theta1) / 360 for wedge in wedges]
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            yield "points", np.ma.filled(collection.get_offsets()[:, 1].astype(float), math.nan)
        elif isinstance(collection, PolyCollection):
            yield from (("areas", thickness(path.vertices)) for path in collection.get_paths())


def opened(ys: Any, axes: Axes) -> Any:
    """A line around a radar without the point that closes it."""
    return ys[:-1] if axes.name == "polar" and len(ys) > 1 and ys[0] == ys[-1] else ys


def thickness(vertices: Any) -> list[float]:
    """How high an area is over each of its places; below zero where it lies there."""
    places: dict[float, list[float]] = {}
    for x, y in vertices:
        places.setdefault(float(x), []).append(float(y))
    ends = [(min(ys), max(ys)) for _, ys in sorted(places.items())]
    return [low - high if low < 0 and high <= 0 else high - low for low, high in ends]


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if value is None or value is np.ma.masked:
        return None
    found = float(value)
    return found if math.isfinite(found) else None


def results(code: str) -> list[dict[str, Any]]:
    """What the code drew."""
    seen = Seen()
    seen.watch()
    try:
        exec(compile(code, "answer.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - it is what this process is for
        found = seen.last()
        if sum(len(one) for series in found.values() for one in series) > MOST:
            raise OverflowError
    except BaseException as e:  # noqa: BLE001 - also exit()
        return [{"error": type(e).__name__}]
    return [{"value": found}]


def main(handle: int) -> None:
    """Confine this process, then do it."""
    item = json.loads(sys.stdin.buffer.read())
    for name, text in item["files"].items():
        Path(Path(name).name).write_text(text, encoding="utf-8")
    mpl.use("Agg", force=True)
    confine(item["seconds"], MEMORY)
    tell(handle, json.dumps(results(item["code"])).encode())
    os._exit(0)


if __name__ == "__main__" and len(sys.argv) > 1:
    main(int(sys.argv[1]))
