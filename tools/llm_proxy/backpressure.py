"""Backpressure: limits the bytes of a job's requests that are in memory; a request waits before its body is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Acquire = Callable[[int], Awaitable[None]]


class Backpressure:
    """A memory budget of `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._free, self._changed = limit, asyncio.Condition()

    @asynccontextmanager
    async def share(self) -> AsyncIterator[Acquire]:
        """The share of one request: call `await acquire(size)` once; it waits for free memory. The exit releases it."""
        acquired = 0

        async def acquire(size: int) -> None:
            nonlocal acquired
            async with self._changed:
                await self._changed.wait_for(lambda: self._free >= size)
                self._free -= size
                acquired = size

        try:
            yield acquire
        finally:
            async with self._changed:
                self._free += acquired
                self._changed.notify_all()
