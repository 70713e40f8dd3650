"""A run backfilled from its files, as the events that a late watcher missed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tuneloop.core.event_log import read_events
from tuneloop.core.events import BaselineMeasured, Event, ExperimentFinished
from tuneloop.core.experiment import Experiment
from tuneloop.core.layout import RunFolder
from tuneloop.tools.runs.journal import baseline_score, load_journal
from tuneloop.tools.runs.status import open_experiments


def backfill_events(run: RunFolder) -> list[Event]:
    """Who began it, what the base model scored, how every experiment ended, where open ones stand, at any length of the log."""
    began, _ = read_events(run.events, 0, 1)
    base = baseline_score(run)
    measured: list[Event] = []
    if base is not None:
        at = written_at(run.baseline / "scores.json")
        measured = [BaselineMeasured(at=at, value=base.value, low=base.low, high=base.high, n=base.n)]
    journal = load_journal(run)
    over = (experiment_finished(e, at=written_at(run.experiment(e.number).result)) for e in journal.experiments)
    open_ = (event for one in open_experiments(run, journal) for event in (one.begun, one.ended, one.job) if event)
    return [*began, *measured, *over, *open_]


def experiment_finished(e: Experiment, at: datetime | None = None) -> ExperimentFinished:
    """The event of an experiment that is over."""
    compared = e.feedback.comparison
    return ExperimentFinished(
        at=at or datetime.now(UTC),
        experiment=e.number,
        outcome=e.outcome,
        statement=e.hypothesis.statement,
        value=e.score and e.score.value,
        low=e.score and e.score.low,
        high=e.score and e.score.high,
        n=e.score and e.score.n,
        gain=compared and compared.gain,
        gain_low=compared and compared.low,
        gain_high=compared and compared.high,
        why="; ".join(e.feedback.reasons) if compared and compared.better else "",
        seconds=e.seconds,
    )


def written_at(file: Path) -> datetime:
    """When a file was written."""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)
