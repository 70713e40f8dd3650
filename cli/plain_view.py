"""The live view where there is no terminal: one line an event, progress throttled; or the events as JSON lines."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import click

from tuneloop.core.events import AgentStreaming, Event, JobProgress
from tuneloop.tools.runs.event_text import event_line

PROGRESS_EVERY = 15.0
Show = Callable[[list[Event]], object]


@contextlib.contextmanager
def plain_view() -> Iterator[Show]:
    """Print lines; of one job's progress at most one every `PROGRESS_EVERY` seconds of event time, and its end."""
    shown: dict[tuple[int, str], float] = {}

    def show(events: list[Event]) -> None:
        for event in events:
            text = event_line(event)
            if text is not None and not is_throttled(event, shown):
                where = f"[{event.experiment}] " if event.experiment else ""
                click.echo(f"{event.at:%H:%M:%S} {where}{text}")

    yield show


def is_throttled(event: Event, shown: dict[tuple[int, str], float]) -> bool:
    """Whether this job's progress, its end, or what this agent thinks, was shown before; `shown` notes when it was."""
    if not isinstance(event, JobProgress | AgentStreaming):
        return False
    over = isinstance(event, JobProgress) and event.done == event.total
    key = (event.experiment, event.job if isinstance(event, JobProgress) else event.agent)
    now, last = event.at.timestamp(), shown.get(key, 0.0)
    if last == math.inf if over else 0 <= now - last < PROGRESS_EVERY:
        return True
    shown[key] = math.inf if over else now
    return False


@contextlib.contextmanager
def json_view() -> Iterator[Show]:
    """Print events as they are, one JSON line each; whatever is in them, a terminal gets plain letters."""

    def show(events: list[Event]) -> None:
        for event in events:
            click.echo(event.model_dump_json(exclude_none=True, ensure_ascii=True))

    yield show
