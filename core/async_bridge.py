"""The one bridge between synchronous and asynchronous code: tools are asynchronous, nodes are plain functions."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tuneloop.core.errors import PausedError

if TYPE_CHECKING:
    import asyncio  # imported where a loop runs: what only pauses needs none

T = TypeVar("T")
P = ParamSpec("P")

_cancelled: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("cancelled", default=None)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    import asyncio

    loop = asyncio.new_event_loop()
    threading.Thread(target=_set_loop, args=(loop,), name="tuneloop-bridge", daemon=True).start()
    return loop


def _set_loop(loop: asyncio.AbstractEventLoop) -> None:
    """`langgraph dev` forbids blocking calls wherever a loop runs; only a waiting node depends on this one."""
    guard = sys.modules.get("blockbuster.blockbuster")
    if guard is not None:
        guard._skip.value = True  # for this thread; blockbuster has no public way to set it
    loop.run_forever()


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the background loop with the caller's context; an interrupt of the caller cancels it."""
    context, done, tasks = contextvars.copy_context(), threading.Event(), list["asyncio.Task[T]"]()
    loop = _loop()

    def start() -> None:
        task = loop.create_task(work, context=context)
        tasks.append(task)
        task.add_done_callback(lambda _: done.set())

    loop.call_soon_threadsafe(start)
    try:
        done.wait()
    except BaseException:
        loop.call_soon_threadsafe(lambda: tasks[0].cancel() if tasks else work.close())
        raise
    return tasks[0].result()


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a blocking function asynchronous; cancelling it interrupts every `pause` inside."""

    @wraps(function)  # callers inspect the parameters
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio

        event = threading.Event()
        context = contextvars.copy_context()
        context.run(_cancelled.set, event)
        work = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(function, *args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            event.set()
            raise

    return call


def is_cancelled() -> bool:
    """Whether the asynchronous caller was cancelled."""
    event = _cancelled.get()
    return event is not None and event.is_set()


_check: contextvars.ContextVar[Callable[[], None] | None] = contextvars.ContextVar("check", default=None)


@contextlib.contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Long work in this context calls `check`, which raises PausedError when the work must stop."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def raise_if_interrupted() -> None:
    """Call between two steps of long work. Raises PausedError when the caller was cancelled or a pause was requested."""
    if is_cancelled():
        raise PausedError("cancelled by the caller")
    if (check := _check.get()) is not None:
        check()


def pause(seconds: float) -> None:
    """Sleep. Raises PausedError when the asynchronous caller is cancelled."""
    event = _cancelled.get()
    if event is None:
        threading.Event().wait(seconds)
    elif event.wait(seconds):
        raise PausedError("cancelled by the caller")
