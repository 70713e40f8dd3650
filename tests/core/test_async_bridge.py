from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading

import pytest

from tuneloop.core.async_bridge import in_thread, pause, run_sync
from tuneloop.core.errors import PausedError


def test_context_variables_travel() -> None:
    name = contextvars.ContextVar("name", default="none")
    name.set("here")

    async def look() -> str:
        await asyncio.sleep(0)
        return name.get()

    assert run_sync(look()) == "here"


def test_errors_travel() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        run_sync(fail())


def test_bridges_do_not_block_each_other() -> None:
    here: list[int] = []

    async def nap() -> int:
        here.append(1)
        while len(here) < 5:
            await asyncio.sleep(0.01)
        return 1

    threads = [threading.Thread(target=lambda: run_sync(nap())) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert len(here) == 5


async def test_cancelling_wakes_a_pause_in_the_thread() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            pause(60)
        except PausedError:
            ended.set()
            raise

    task = asyncio.ensure_future(in_thread(work)())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 2)


def test_the_asynchronous_face_takes_what_the_function_takes() -> None:
    """LangChain looks at the parameters to know whether to hand over the config."""

    def node(state: int, config: dict[str, int]) -> int:
        return state + config["x"]

    face = in_thread(node)
    assert list(inspect.signature(face).parameters) == ["state", "config"]
    assert inspect.iscoroutinefunction(face)
    assert asyncio.run(face(1, {"x": 2})) == 3
