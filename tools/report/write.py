"""Write everything a report consists of; `report.json` comes last and says that the run is over."""

from __future__ import annotations

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.report.card import model_card
from tuneloop.tools.report.data import ReportData
from tuneloop.tools.report.facts import facts
from tuneloop.tools.report.markdown import report
from tuneloop.tools.report.plots import draw_losses, draw_scores, draw_times


def write_report(run: RunFolder, data: ReportData) -> None:
    """Plots, `report.md`, the model card when `best/` is there, `report.json`. Writing again gives the same files."""
    plots = run.root / "report"
    draw_scores(plots / "scores.png", data.benchmark.metric, data.baseline_validation, data.journal)
    if any(data.losses.values()):
        draw_losses(plots / "losses.png", data.losses)
    if data.times:
        draw_times(plots / "times.png", data.times)
    write_atomic(run.report, report(run.id, data))
    if data.best is not None and run.best.is_dir():
        write_atomic(run.best / "README.md", model_card(run.id, data))
    write_json(run.report_json, facts(run.id, data))
