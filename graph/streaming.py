"""What happens while a node works, in LangGraph's custom stream: Studio, `astream` and the API's clients see it live."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable

from langgraph.config import get_stream_writer

from tuneloop.core.events import Event

Show = Callable[[Event], None]


def silent(event: Event) -> None:
    """Nobody watches but who reads `events.jsonl`."""


def live() -> Show:
    """Shows events of the node that calls this, from any thread and any context; outside of a graph nobody watches."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        return silent
    node = contextvars.copy_context()

    def show(event: Event) -> None:
        with contextlib.suppress(RuntimeError):  # who watched has left, and his event loop is closed
            node.copy().run(write, event.model_dump(mode="json", exclude_none=True))

    return show
