"""What `tuneloop eval` shows: a table, bars with intervals, a comparison, a plot, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuneloop.core.score import Score
from tuneloop.core.wording import clean, interval, p
from tuneloop.tools.evaluating import Measurement
from tuneloop.tools.evaluating.facts import difference, measured

WIDTH = 20
COLOURS = ("#2a7f3f", "#888888")


def compared(found: Sequence[Measurement]) -> list[dict[str, Any]]:
    """The first against the second, by benchmark: points gained, items won and lost, exact p-value both ways."""
    if len(found) < 2:
        return []
    return [difference(found[0].scores[name], found[1].scores[name]) for name in found[0].scores]


def facts(found: Sequence[Measurement], rows: list[dict[str, Any]], place: Path) -> dict[str, Any]:
    """For scripts."""
    return {"models": [measured(one) for one in found], "compared": rows, "out": str(place)}


def show(found: Sequence[Measurement], rows: list[dict[str, Any]], place: Path) -> None:
    """For people."""
    console = Console()
    console.print(scores(found))
    if rows:
        console.print(comparison(found, rows))
    for note in remarks(found):
        console.print(Text(f"note: {clean(note)}"))
    console.print(Text(f"({place})"), soft_wrap=True)


def scores(found: Sequence[Measurement]) -> Table:
    """A line a model and benchmark."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("benchmark", "model", "metric"):
        table.add_column(name, no_wrap=True)
    for name in ("value (95 %)", "n", "parsed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("0 - 100", no_wrap=True)
    table.add_column("also")
    for name in found[0].scores:
        for one in found:
            score = one.scores[name]
            plain = (name, one.subject.name, score.metric, interval(score.value, score.low, score.high))
            last = (str(score.n), f"{score.parsed:.0f} %", line(score), also(score))
            table.add_row(*(Text(clean(cell)) for cell in (*plain, *last)))
    return table


def line(score: Score) -> str:
    """The value as a bar, its interval as dots."""
    cells = [" "] * WIDTH
    for i in range(WIDTH):
        at = 100 * (i + 0.5) / WIDTH
        cells[i] = "█" if at <= score.value else "·" if at <= score.high else " "
        cells[i] = "▒" if score.low <= at <= score.value else cells[i]
    return "".join(cells).rstrip()


def also(score: Score) -> str:
    """Further metrics, and what the judge decided."""
    found = [f"{name} {value:.3g}" for name, value in score.metrics.items()]
    if judged := score.judged:
        found.append(f"judge: {judged.correct} of {judged.asked} right, {judged.unknown} unknown")
    return ", ".join(found)


def comparison(found: Sequence[Measurement], rows: list[dict[str, Any]]) -> Table:
    """The first model against the second."""
    title = f"{found[0].subject.name} against {found[1].subject.name}, the same items"
    table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left", title_style="bold")
    for name in ("benchmark", "points (95 %)", "won", "lost", "p", ""):
        table.add_column(name, justify="left" if name in ("benchmark", "") else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["benchmark"],
            f"{row['gain']:+.1f} ({row['low']:+.0f} to {row['high']:+.0f})",
            str(row["wins"]),
            str(row["losses"]),
            p(row["p_value"]),
            row["verdict"],
        )
    return table


def remarks(found: Sequence[Measurement]) -> list[str]:
    """What one should know of the numbers."""
    said = [note for one in found for note in one.notes]
    for one in found:
        for name, score in one.scores.items():
            if failed := score.scorer_failed():
                said.append(f"{one.subject.name} on {name}: {failed}")
    return list(dict.fromkeys(said))


def draw(path: Path, found: Sequence[Measurement]) -> None:
    """All values with their intervals as PNG and SVG."""
    from matplotlib.figure import Figure  # half a second, and only who compares pays for it

    names = list(found[0].scores)
    figure = Figure(figsize=(8, 1.2 + 0.7 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for number, (one, colour) in enumerate(zip(found, COLOURS, strict=False)):
        values = [one.scores[name] for name in names]
        around = [[s.value - s.low for s in values], [s.high - s.value for s in values]]
        places = [i + 0.2 * (number - 0.5) for i in range(len(names))]
        points = [s.value for s in values]
        axes.errorbar(points, places, xerr=around, fmt="o", capsize=4, color=colour, label=one.subject.name)
    axes.set(yticks=range(len(names)), yticklabels=names, xlim=(0, 100), xlabel="value, 95 % intervals")
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.legend(loc="best", fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
