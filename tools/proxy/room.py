"""How much of a job's requests is in memory at the same time: what finds no room waits before its body is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Take = Callable[[int], Awaitable[None]]


class Room:
    """For `most` bytes."""

    def __init__(self, most: int) -> None:
        self._left, self._changed = most, asyncio.Condition()

    @asynccontextmanager
    async def part(self) -> AsyncIterator[Take]:
        """One request's: `await take(size)` once waits until there is room for it; the end gives it back."""
        taken = 0

        async def take(size: int) -> None:
            nonlocal taken
            async with self._changed:
                await self._changed.wait_for(lambda: self._left >= size)
                self._left -= size
                taken = size

        try:
            yield take
        finally:
            async with self._changed:
                self._left += taken
                self._changed.notify_all()
