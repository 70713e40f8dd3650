"""Follow a run's events and show them: redrawn in a terminal, as lines elsewhere, as JSON where a script wants it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from rich.console import Console

from tuneloop.cli.panels import rich_view
from tuneloop.cli.plain import Show, json_view, plain_view
from tuneloop.core.event_log import read_events
from tuneloop.core.layout import RunFolder

POLL = 0.25


def choose_view(as_json: bool) -> contextlib.AbstractContextManager[Show]:
    """The view that fits where standard output goes."""
    if as_json:
        return json_view()
    return rich_view(Console()) if redraws(as_json) else plain_view()


def redraws(as_json: bool) -> bool:
    """A terminal is there and wanted."""
    return sys.stdout.isatty() and not as_json


def follow(run: RunFolder, as_json: bool, over: Callable[[], bool], offset: int = 0) -> None:
    """Show the run's events from byte `offset` on until `over()` is true and everything written is shown."""
    pause = threading.Event()
    with contextlib.suppress(BrokenPipeError), choose_view(as_json) as show:
        while True:
            last_round = over()
            events, offset = read_events(run.events, offset)
            show(events)
            if last_round and not events:
                return
            if not events:
                pause.wait(POLL)


@contextlib.contextmanager
def showing(run: RunFolder, as_json: bool) -> Iterator[None]:
    """Show from a second thread what the body does to the run; a terminal also sees what was before."""
    done = threading.Event()
    before = run.events.stat().st_size if run.events.is_file() else 0
    where = (run, as_json, done.is_set, 0 if redraws(as_json) else before)
    thread = threading.Thread(target=follow, args=where, name="live view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(5)
