"""The live view where there is no terminal: one line an event, progress throttled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import click

from tuneloop.core.events import (
    AgentAnswered,
    BaselineMeasured,
    Event,
    ExperimentFinished,
    JobProgress,
    NodeFinished,
    NodeStarted,
    Problem,
    RunFinished,
    RunPaused,
    RunStarted,
)
from tuneloop.core.wording import clean, duration, interval, p

PROGRESS_EVERY = 15.0
Show = Callable[[list[Event]], object]


def line(event: Event) -> str | None:  # noqa: PLR0911 - one line an event
    """The event in words; None for what the next event says better."""
    match event:
        case RunStarted():
            return f"run {event.run}: {event.benchmark}, {event.base_model}, planner {event.planner}, {event.sandbox}"
        case NodeStarted():
            return None
        case NodeFinished():
            return f"{event.node} done in {duration(event.seconds)}{f': {clean(event.detail)}' if event.detail else ''}"
        case AgentAnswered():
            return f"{event.agent}: {clean(event.says)}{f' (because {clean(event.why)})' if event.why else ''}"
        case JobProgress():
            total = f"/{event.total}" if event.total else ""
            return f"{event.job}: {event.done}{total} {event.unit} {clean(event.note)}".rstrip()
        case Problem():
            return f"problem in {event.node} ({event.culprit}): {clean(event.text)}"
        case BaselineMeasured():
            return f"base model: {interval(event.value, event.low, event.high)} on {event.n} validation items"
        case ExperimentFinished():
            score = interval(event.value, event.low, event.high)
            return f"{event.outcome}: {score}, p {p(event.p_value)}: {clean(event.statement)}"
        case RunPaused():
            return f"paused: {clean(event.reason)}"
        case RunFinished():
            return finish_line(event)


def finish_line(event: RunFinished) -> str:
    """The result in one line."""
    if event.best is None:
        return f"finished: no experiment was provably better than the base model; report: {event.report}"
    test = f"sealed test {interval(event.baseline_test, None, None)} -> {interval(event.best_test, None, None)}"
    return f"finished: best is experiment {event.best}, {test}; report: {event.report}"


@contextlib.contextmanager
def plain_view() -> Iterator[Show]:
    """Print lines; of one job's progress at most one every `PROGRESS_EVERY` seconds of event time, and its end."""
    shown: dict[tuple[int, str], float] = {}

    def show(events: list[Event]) -> None:
        for event in events:
            text = line(event)
            if text is not None and not (isinstance(event, JobProgress) and _too_soon(event, shown)):
                where = f"[{event.experiment}] " if event.experiment else ""
                click.echo(f"{event.at:%H:%M:%S} {where}{text}")

    yield show


def _too_soon(event: JobProgress, shown: dict[tuple[int, str], float]) -> bool:
    key, now = (event.experiment, event.job), event.at.timestamp()
    if now - shown.get(key, 0.0) < PROGRESS_EVERY and event.done != event.total:
        return True
    shown[key] = now
    return False


@contextlib.contextmanager
def json_view() -> Iterator[Show]:
    """Print events as they are, one JSON line each."""

    def show(events: list[Event]) -> None:
        for event in events:
            click.echo(event.model_dump_json(exclude_none=True))

    yield show
