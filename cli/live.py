"""Follow a run's events and show them: redrawn in a terminal, as lines elsewhere, as JSON where a script wants it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tuneloop.cli.live_panels import rich_view
from tuneloop.cli.plain_view import Show, json_view, plain_view
from tuneloop.cli.terminal import PlainConsole
from tuneloop.core.event_log import find_last_event_offset, read_events
from tuneloop.core.layout import RunFolder
from tuneloop.graph.lifecycle.event_backfill import backfill_events

POLL = 0.5
LONG = 1 << 20


def choose_view(as_json: bool) -> contextlib.AbstractContextManager[Show]:
    """The view that fits where standard output goes."""
    if as_json:
        return json_view()
    return rich_view(PlainConsole()) if is_live_terminal(as_json) else plain_view()


def is_live_terminal(as_json: bool) -> bool:
    """A terminal is there and wanted."""
    return sys.stdout.isatty() and not as_json


def follow(run: RunFolder, as_json: bool, over: Callable[[], bool], offset: int | None = None) -> None:
    """Show the run's events from byte `offset` on until `over()` is true and everything written is shown.

    Without an offset from the beginning; for people a long log is backfilled from the run's files up to the node at hand.
    A log that was replaced by a shorter one is read anew.
    """
    pause = threading.Event()
    with contextlib.suppress(BrokenPipeError), choose_view(as_json) as show:
        at = show_history(run, as_json, show) if offset is None else offset
        while True:
            last_round = over()
            size = file_size(run.events)
            events, at = ([], at) if size == at else read_events(run.events, at if size > at else 0)
            show(events)
            if last_round and not events:
                return
            if not events:
                pause.wait(POLL)


def show_history(run: RunFolder, as_json: bool, show: Show) -> int:
    """Tell what was so far, when it is long, and return the byte from which on to follow."""
    if as_json or file_size(run.events) <= LONG:
        return 0
    show(backfill_events(run))
    return find_last_event_offset(run.events, "node_started") or 0


def file_size(file: Path) -> int:
    """In bytes; 0 when there is none."""
    return file.stat().st_size if file.is_file() else 0


@contextlib.contextmanager
def showing(run: RunFolder, as_json: bool) -> Iterator[None]:
    """Show from a second thread what the body does to the run; a terminal also sees what was before."""
    done = threading.Event()
    where = (run, as_json, done.is_set, None if is_live_terminal(as_json) else file_size(run.events))
    thread = threading.Thread(target=follow, args=where, name="live view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(5)
