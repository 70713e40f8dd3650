"""While a node works, a thread of its own hears what people say: they are answered at once, whatever the node does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from langgraph.errors import GraphBubbleUp

from tuneloop.core.errors import AsksError, Paused
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import obey
from tuneloop.graph.pondering import ponder
from tuneloop.tools.runs.inbox import put, waiting

GLANCE = 0.2  # seconds between looks into the inbox
_ears: dict[Path, Ear] = {}


class Ear:
    """Of one node of one run. Only it takes messages while the node works; the node asks it whether to pause."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = replace(ctx)  # what the node has loaded is the node's
        self._over, self._pause = threading.Event(), threading.Event()
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=self._listen, name="tuneloop-ear", daemon=True)
        self._thread.start()

    @property
    def calls(self) -> bool:
        """Whether the node shall look up."""
        return self._pause.is_set() or self._trouble is not None

    def check(self) -> None:
        """Raises Paused when somebody asked for it, and what went wrong while somebody was heard."""
        if self._trouble is not None:
            raise self._trouble
        if self._pause.is_set():
            self._pause.clear()
            raise Paused("stopped on request")

    def close(self, *, done: bool) -> None:
        """The node is over; a pause that it did not see is left for the next one."""
        self._over.set()
        self._thread.join()
        if done and self._pause.is_set():
            put(self._ctx.run.inbox, do="pause")

    def _listen(self) -> None:
        while not self._over.wait(GLANCE):
            if waiting(self._ctx.run.inbox):
                self._hear()

    def _hear(self) -> None:
        try:
            obey(self._ctx)
            ponder(self._ctx)
        except Paused:
            self._pause.set()
        except Exception as e:  # noqa: BLE001 - a full disk, say: the node raises it
            self._trouble = e
            self._over.set()


@contextlib.contextmanager
def listening(ctx: Context) -> Iterator[None]:
    """Hear people while a node works; what was said before holds in it. Raises Paused when that asks for it."""
    obey(ctx)
    ponder(ctx)
    place = ctx.run.root.resolve()
    ear, done = Ear(ctx), False
    _ears[place] = ear
    try:
        yield
        done = True
    except (GraphBubbleUp, AsksError):
        done = True  # it asks a person and will be entered again: a pause that was promised holds until then
        raise
    finally:
        del _ears[place]
        ear.close(done=done)


def heed(ctx: Context) -> None:
    """Raises Paused when somebody asked for it; hears people itself where no thread does."""
    ear = _ears.get(ctx.run.root.resolve())
    if ear is None:
        obey(ctx)
    else:
        ear.check()


def called(ctx: Context) -> bool:
    """Whether `heed` has something to do; costs next to nothing."""
    ear = _ears.get(ctx.run.root.resolve())
    return bool(waiting(ctx.run.inbox)) if ear is None else ear.calls
