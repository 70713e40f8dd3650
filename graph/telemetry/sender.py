"""What leaves this machine about a run leaves in the background: a slow or dead receiver never holds a run up."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

WAITING = 1000
Item = TypeVar("Item")


class BackgroundSender(Generic[Item]):
    """A queue and the thread that empties it; when the queue is full, items are dropped.

    `send` handles its own errors. At the end of the process what is left is sent, for `last_seconds` at most.
    """

    def __init__(self, name: str, send: Callable[[Item], None], last_seconds: float) -> None:
        self.log = logging.getLogger(f"tuneloop.{name}")
        self.send, self.last_seconds = send, last_seconds
        self.waiting: queue.Queue[Item | None] = queue.Queue(WAITING)
        self.thread = threading.Thread(target=self.work, name=f"tuneloop {name}", daemon=True)
        self.thread.start()
        atexit.register(self.close)

    def put(self, item: Item | None) -> None:
        """Never waits; at None the thread ends."""
        try:
            self.waiting.put_nowait(item)
        except queue.Full:
            self.log.debug("dropped: the receiver does not keep up")

    def close(self, seconds: float | None = None) -> None:
        """Send what is left, for a moment."""
        self.put(None)
        self.thread.join(self.last_seconds if seconds is None else seconds)

    def work(self) -> None:
        """Send until the end is asked for."""
        while (item := self.waiting.get()) is not None:
            self.send(item)
