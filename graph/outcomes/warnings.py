"""What the checks found in an open or closed experiment that stops nothing: agents are told, and so is who reads the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.event_log import iter_events
from tuneloop.core.events import MonitorFinding
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.tools.data_gate.report import REJECTED, REPORT


def keep_config_warnings(folder: ExperimentFolder, texts: list[str]) -> None:
    """Of the first check, for the config as it is now."""
    write_json(_file(folder), texts)


def add_warning(folder: ExperimentFolder, text: str) -> None:
    """One more of the recipe as it is now; once, and nothing where there is no text."""
    kept = read_model(_file(folder), list[str]) if _file(folder).is_file() else []
    if text and text not in kept:
        write_json(_file(folder), [*kept, text])


def collect_warnings(run: RunFolder, number: int) -> tuple[str, ...]:
    """Of the config check, of the newest data gate, of the live watch, in this order."""
    folder = run.experiment(number)
    config = read_model(_file(folder), list[str]) if _file(folder).is_file() else []
    gates = (
        folder.data / REPORT,
        folder.data / REJECTED,
        folder.work / "sample" / REPORT,
        folder.work / "sample" / REJECTED,
    )
    newest = max((f for f in gates if f.is_file()), key=lambda f: f.stat().st_mtime_ns, default=None)
    data = read_model(newest, dict[str, Any]).get("warnings", ()) if newest else ()
    seen = [
        e
        for e in iter_events(run.events, "monitor_finding")
        if isinstance(e, MonitorFinding) and e.experiment == number
    ]
    watch = dict.fromkeys(f"{e.job}: {e.text}" for e in seen if not e.stops)
    return (*config, *data, *watch)


def _file(folder: ExperimentFolder) -> Path:
    return folder.root / "warnings.json"
