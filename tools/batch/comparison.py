"""A batch in one table: benchmarks × models × scenarios, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tuneloop.core.files import write_atomic
from tuneloop.core.formatting import format_duration
from tuneloop.core.layout import Home
from tuneloop.tools.batch.run import TaskStatus
from tuneloop.tools.report.report_file import read_report
from tuneloop.tools.statistics.intervals import t_quantile

NAME = "comparison"


@dataclass(frozen=True)
class Cell:
    """Runs of one benchmark, model and scenario.

    Attributes:
        base, best, gain: means over the finished runs on the sealed test, 0 to 100; `best` is what is delivered, which may be
            the base model; None without a finished run.
        low, high: 95 % interval of the gain: the run's own for one run, Student's t over several.
        claimed: finished runs that claim a better model.
        failures: why runs have failed.
    """

    benchmark: str
    model: str
    scenario: str
    runs: int
    finished: int
    base: float | None
    best: float | None
    gain: float | None
    low: float | None
    high: float | None
    claimed: int
    experiments: int
    cost: float
    seconds: float
    failures: tuple[str, ...]


def compare_runs(home: Home, found: Sequence[TaskStatus]) -> list[Cell]:
    """One cell for each benchmark, model and scenario, in the order of the tasks."""
    groups: dict[tuple[str, str, str], list[TaskStatus]] = {}
    for status in found:
        groups.setdefault((status.task.benchmark, status.task.model, status.task.scenario), []).append(status)
    return [_cell(home, key, group) for key, group in groups.items()]


def _cell(home: Home, key: tuple[str, str, str], group: Sequence[TaskStatus]) -> Cell:
    reports = [read_report(home.run(s.task.run_id)) for s in group if s.state == "finished"]
    measured = [one for one in reports if one["baseline"]["test"]]
    base = [one["baseline"]["test"]["value"] for one in measured]
    best = [(one["best"] if one["best"]["delivered"] else one["baseline"])["test"]["value"] for one in measured]
    gains = [after - before for after, before in zip(best, base, strict=True)]
    low, high = _bounds(gains, measured)
    return Cell(
        *key,
        runs=len(group),
        finished=len(reports),
        base=_mean(base),
        best=_mean(best),
        gain=_mean(gains),
        low=low,
        high=high,
        claimed=sum(bool(one["best"]["claimed"]) for one in reports),
        experiments=sum(one["budget"]["experiments"] for one in reports),
        cost=round(sum(_spent(one, "money") for one in reports), 4),
        seconds=round(sum(one["budget"]["seconds"] for one in reports), 1),
        failures=tuple(f"{s.task.run_id}: {s.reason}" for s in group if s.state == "failed"),
    )


def _bounds(gains: Sequence[float], reports: Sequence[dict[str, Any]]) -> tuple[float | None, float | None]:
    if len(gains) > 1:
        half = t_quantile(0.975, len(gains) - 1) * stdev(gains) / len(gains) ** 0.5
        return fmean(gains) - half, fmean(gains) + half
    claim = reports[0]["claim"] if reports and reports[0]["best"]["delivered"] else None
    return (claim["low"], claim["high"]) if claim else (None, None)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _spent(report: dict[str, Any], kind: str) -> float:
    return float((report["budget"]["spent"].get(kind) or {}).get("spent") or 0.0)


def write_comparison(folder: Path, cells: Sequence[Cell]) -> None:
    """`comparison.md`, `comparison.csv` and, last, `comparison.json`."""
    write_atomic(folder / f"{NAME}.md", comparison_markdown(cells))
    write_atomic(folder / f"{NAME}.csv", comparison_csv(cells))
    write_atomic(folder / f"{NAME}.json", json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")


def comparison_csv(cells: Sequence[Cell]) -> str:
    """A line for each cell."""
    out = io.StringIO()
    rows = [{**asdict(cell), "failures": "; ".join(cell.failures)} for cell in cells]
    writer = csv.DictWriter(out, list(Cell.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _inert(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


def comparison_markdown(cells: Sequence[Cell]) -> str:
    """The table, and what has failed below it."""
    scenarios = any(cell.scenario for cell in cells)
    head = ["benchmark", "model", *(["scenario"] if scenarios else []), *COLUMNS]
    lines = ["# Comparison", "", _row(head), _row(["---"] * len(head))]
    for cell in cells:
        names = [cell.benchmark, cell.model, *([cell.scenario] if scenarios else [])]
        lines.append(_row([*names, *cell_texts(cell)]))
    failures = [f"- {_escape(text)}" for cell in cells for text in cell.failures]
    return "\n".join([*lines, *(["", "Failed:", "", *failures] if failures else [])]) + "\n"


COLUMNS = ("runs", "base", "best", "gain (95 %)", "claimed", "experiments", "cost", "time")


def cell_texts(cell: Cell) -> list[str]:
    """What stands below `COLUMNS`."""
    bounds = "" if cell.low is None or cell.high is None else f" ({cell.low:.1f} to {cell.high:.1f})"
    return [
        str(cell.runs) if cell.finished == cell.runs else f"{cell.finished} of {cell.runs}",
        "-" if cell.base is None else f"{cell.base:.1f}",
        "-" if cell.best is None else f"{cell.best:.1f}",
        "-" if cell.gain is None else f"{cell.gain:+.1f}{bounds}",
        str(cell.claimed),
        str(cell.experiments),
        f"${cell.cost:.2f}" if cell.cost else "-",
        format_duration(cell.seconds) if cell.finished else "-",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escape, cells))} |"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
