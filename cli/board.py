"""What the live view knows: a board that each event moves on by one step, so that any terminal can join late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from tuneloop.core import events as e

WORDS_KEPT = 5


@dataclass(frozen=True)
class Board:
    """Everything shown; `progress` maps a job of the current node to its first and latest report."""

    started: e.RunStarted | None = None
    foreseen: e.Foreseen | None = None
    validation: e.ValidationChosen | None = None
    baseline: e.BaselineMeasured | None = None
    node: e.NodeStarted | None = None
    words: tuple[
        e.AgentAnswered | e.Problem | e.Watched | e.Forecasted | e.Told | e.Approval | e.PlannerFellBack | e.LimitNear,
        ...,
    ] = ()
    thinks: e.AgentThinks | e.ToolUsed | e.ModelCalled | None = None
    progress: Mapping[str, tuple[e.JobProgress, e.JobProgress]] = field(default_factory=dict)
    rows: tuple[e.ExperimentFinished, ...] = ()
    end: e.RunPaused | e.RunFinished | None = None


def advance(board: Board, event: e.Event) -> Board:  # noqa: PLR0911 - one line an event
    """The board after `event`."""
    match event:
        case e.RunStarted():
            return replace(board, started=event, end=None, progress={})
        case e.NodeStarted():
            return replace(board, node=event, end=None, progress={}, thinks=None)
        case e.NodeFinished() | e.NodeCut():
            return replace(board, progress={}, thinks=None)
        case (
            e.AgentAnswered()
            | e.Problem()
            | e.Watched()
            | e.Forecasted()
            | e.Told()
            | e.Approval()
            | e.LimitNear()
            | e.PlannerFellBack()
        ):
            return replace(board, words=(*board.words, event)[-WORDS_KEPT:], thinks=None)
        case e.AgentThinks() | e.ToolUsed() | e.ModelCalled():
            return replace(board, thinks=event)
        case e.JobProgress():
            return replace(board, progress=_progress(board, event))
        case e.Foreseen():
            return replace(board, foreseen=event)
        case e.ValidationChosen():
            return replace(board, validation=event)
        case e.BaselineMeasured():
            return replace(board, baseline=event)
        case e.ExperimentFinished():
            others = tuple(row for row in board.rows if row.experiment != event.experiment)
            return replace(board, rows=(*others, event))
        case e.RunPaused() | e.RunFinished():
            return replace(board, end=event, node=None, progress={}, thinks=None)


def _progress(board: Board, event: e.JobProgress) -> Mapping[str, tuple[e.JobProgress, e.JobProgress]]:
    first, last = board.progress.get(event.job, (event, event))
    first = event if event.done < last.done else first
    return {**board.progress, event.job: (first, event)}


def board_of(events: Iterable[e.Event]) -> Board:
    """The board after all `events`."""
    return reduce(advance, events, Board())


def incumbent(board: Board) -> int | None:
    """Number of the experiment that was promoted last."""
    return next((row.experiment for row in reversed(board.rows) if row.outcome == "promoted"), None)


def seconds_left(first: e.JobProgress, last: e.JobProgress) -> float | None:
    """Forecast from the pace between two reports of a job; None while there is no pace."""
    done, seconds = last.done - first.done, (last.at - first.at).total_seconds()
    if done <= 0 or last.total <= 0:
        return None
    return max(0.0, (last.total - last.done) * seconds / done)
