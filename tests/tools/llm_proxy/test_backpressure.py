"""A request without free memory waits until another one ends."""

from __future__ import annotations

import asyncio

from tuneloop.tools.llm_proxy.backpressure import Backpressure


async def test_waits_for_free_memory() -> None:
    budget, inside, most = Backpressure(10), 0, 0

    async def one(size: int) -> None:
        nonlocal inside, most
        async with budget.share() as take:
            await take(size)
            inside += size
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= size

    await asyncio.gather(*(one(size) for size in (4, 4, 4, 10, 1, 0) * 20))
    assert (inside, most) == (0, 10)


async def test_cancelled_wait_acquires_nothing() -> None:
    budget = Backpressure(10)
    async with budget.share() as take:
        await take(10)
        async with budget.share() as another:
            waiting = asyncio.ensure_future(another(1))
            await asyncio.sleep(0)
            waiting.cancel()
    async with budget.share() as take:
        await asyncio.wait_for(take(10), 5)
