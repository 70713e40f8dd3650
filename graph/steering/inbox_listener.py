"""A thread that answers messages while a node works, and records requests for a pause."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tuneloop.core.async_bridge import interruptible
from tuneloop.core.errors import ApprovalNeededError, PausedError
from tuneloop.core.layout import RunFolder
from tuneloop.core.os_errors import naming_os_errors
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.lock import hold_lock, when_lost
from tuneloop.graph.lifecycle.rebuild import rebuild
from tuneloop.graph.steering.llm_listener import answer_waiting, start_listener
from tuneloop.graph.steering.message_handler import process_inbox
from tuneloop.tools.runs.messages import put, waiting

INTERVAL = 0.5  # seconds between looks into the inbox
_listeners: dict[tuple[Path, int], InboxListener] = {}


class InboxListener:
    """Reads the inbox of one run while one node works; the node asks it whether to pause."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = replace(ctx)  # what the node has loaded is the node's
        self._over, self._pause = threading.Event(), threading.Event()
        self._ended = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._listen, name="tuneloop-inbox", daemon=True)
        self._thread.start()

    @property
    def interrupts(self) -> bool:
        """Whether `check` raises."""
        return self._pause.is_set() or self._error is not None

    def check(self) -> None:
        """Raises PausedError when somebody asked for it, and what failed while a message was handled."""
        if self._error is not None:
            raise self._error
        if self._pause.is_set():
            self._pause.clear()
            raise PausedError("stopped on request")

    def interrupt(self) -> None:
        """As `check`, in the middle of work that others may catch errors of: the request stays until the node hears it."""
        if self._error is not None:
            raise self._error
        if self._pause.is_set():
            raise PausedError("stopped on request")

    def end_session(self, error: Exception | None) -> None:
        """Have the node pause, or raise the error, because another experiment's node did; once."""
        if not self._ended:
            self._ended = True
            self._error = self._error or error
            if error is None:
                self._pause.set()

    def close(self, *, done: bool) -> None:
        """The node is over; a pause that it did not notice is left for the next one."""
        self._over.set()
        self._thread.join()
        if done and self._pause.is_set() and not self._ended:
            put(self._ctx.run.inbox, do="pause", promised="yes")

    def _listen(self) -> None:
        while not self._over.wait(INTERVAL):
            if waiting(self._ctx.run.inbox):
                self._handle()

    def _handle(self) -> None:
        try:
            process_inbox(self._ctx)
            start_listener(self._ctx)
        except PausedError:
            self._pause.set()
        except Exception as e:  # noqa: BLE001 - a full disk, say: the node raises it
            self._error = e
            self._over.set()


@contextlib.contextmanager
def listening(ctx: Context) -> Iterator[None]:
    """Handle messages while a node works, and those before it at once. Raises PausedError when one asks for it."""
    from langgraph.errors import GraphBubbleUp  # takes 0.4 s: `tuneloop chat` answers without it

    process_inbox(ctx)
    start_listener(ctx)
    place = _place(ctx)
    listener, done = InboxListener(ctx), False
    _listeners[place] = listener
    try:
        with interruptible(listener.interrupt):
            yield
        done = True
    except (GraphBubbleUp, ApprovalNeededError):
        done = True  # it asks a person and will be entered again: a pause that was promised holds until then
        raise
    finally:
        del _listeners[place]
        listener.close(done=done)


def _place(ctx: Context) -> tuple[Path, int]:
    return ctx.run.root.resolve(), ctx.slot


def end_nodes(run: RunFolder, error: Exception | None) -> None:
    """Have every node that works on the run pause, or raise the error: its jobs are left alone then."""
    for (root, _), listener in list(_listeners.items()):
        if root == run.root.resolve():
            listener.end_session(error)


when_lost.append(end_nodes)


def raise_if_paused(ctx: Context) -> None:
    """Raises PausedError when somebody asked for it; handles messages itself where no thread does."""
    listener = _listeners.get(_place(ctx))
    if listener is None:
        process_inbox(ctx)
    else:
        listener.check()


def has_messages(ctx: Context) -> bool:
    """Whether `raise_if_paused` has something to do; costs next to nothing."""
    listener = _listeners.get(_place(ctx))
    return bool(waiting(ctx.run.inbox)) if listener is None else listener.interrupts


def answer_offline(run: RunFolder, settings: Settings) -> None:
    """Handle the messages of a run that nobody works on; without any, ask the model about those that wait for it.

    The run's lock is free while the model is asked. Raises InvalidRequestError when another process works on the run after all.
    """
    with naming_os_errors(run.root):
        with hold_lock(run.lock), contextlib.suppress(PausedError):  # it stands still already
            ctx = Context(run, settings, rebuild(run, settings))
            if waiting(run.inbox):
                process_inbox(ctx)
                return
        answer_waiting(ctx, lambda: None)
