"""Passes a provider's answer on to the client, books what it used and caches it where it is repeatable."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tuneloop.tools.llm_proxy.answer_cache import Answer
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.http import Exchange
from tuneloop.tools.llm_proxy.ledger import Entry, Outcome
from tuneloop.tools.llm_proxy.model_request import ModelRequest
from tuneloop.tools.llm_proxy.sse import DONE_EVENT, EventStream, TokenUsage
from tuneloop.tools.llm_proxy.upstream import ANSWER_BYTES, Reply

ANSWERS = {"choices", "data"}  # one of these holds what was asked for; data: embeddings
Store = Callable[[Answer], Awaitable[None]]


@dataclass
class Reservation:
    """A request under way: the ledger entry that is booked when it ends, however it ends.

    `cost` maps tokens in, out, and in from the provider's cache to USD.
    """

    entry: Entry
    cost: Callable[[int, int, int], float | None]
    started: float = field(default_factory=time.monotonic)

    def use(self, tokens_in: int, tokens_out: int, *, reported: bool, cached: int = 0) -> None:
        """Set the tokens; `reported` by the provider, or estimated; `cached`: input tokens from its cache."""
        facts = {"tokens_in": tokens_in, "tokens_out": tokens_out, "tokens_cached": cached}
        cost = self.cost(tokens_in, tokens_out, cached)
        self.entry = self.entry.model_copy(update={**facts, "cost": cost, "estimated": not reported})

    def settle(self, outcome: Outcome, status: int, **facts: object) -> None:
        """Set how it ended."""
        end = {"outcome": outcome, "status": status, "seconds": round(time.monotonic() - self.started, 3), **facts}
        self.entry = self.entry.model_copy(update=end)


async def discard(answer: Answer) -> None:
    """The Store of answers that are not repeatable."""


async def relay_whole(request: ModelRequest, reply: Reply, reservation: Reservation, store: Store) -> bytes:
    """The body of an unstreamed answer. Raises ApiError when it is none."""
    body = await reply.body()
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise ApiError(502, "upstream_broken", "the model's endpoint answered something that is no JSON", 1) from e
    if not isinstance(answer, dict) or answer.get("error") or not ANSWERS & answer.keys():
        raise ApiError(502, "upstream_error", "the model's endpoint reported an error in the form of an answer", 1)
    usage = TokenUsage(request)
    usage.read(answer.get("usage"))
    if not usage.reported:
        usage.estimate(answer)
    text = body.decode(errors="replace")
    await store(Answer(text, usage.tokens_in, usage.tokens_out, usage.reported))
    reservation.use(usage.tokens_in, usage.tokens_out, reported=usage.reported, cached=usage.cached)
    reservation.settle("answered", 200)
    return text.encode()


async def relay_stream(
    exchange: Exchange,
    request: ModelRequest,
    reply: Reply,
    reservation: Reservation,
    store: Store,
    check: Callable[[ModelRequest, TokenUsage], None],
) -> bytes:
    """Forward events while `check` allows it; returns the last event, which the caller sends after booking."""
    stream, sent = EventStream(request), bytearray()
    reservation.settle("cut", 499, code="client_left")
    try:
        await exchange.start_stream()
        async for line in reply.lines():
            event = stream.forward(line)
            if stream.done:
                break
            check(request, stream.usage)
            sent += event if len(sent) < ANSWER_BYTES else b""
            await exchange.send(event)
        stream.check_done()
        if len(sent) < ANSWER_BYTES:
            text = (bytes(sent) + DONE_EVENT).decode(errors="replace")
            await store(Answer(text, stream.usage.tokens_in, stream.usage.tokens_out, stream.usage.reported))
        reservation.settle("answered", 200, code="")
    except ApiError as e:
        reservation.settle("cut", e.status, code=e.code)
        return b"data: " + e.body + b"\n\n"
    finally:
        usage = stream.usage
        reservation.use(usage.tokens_in, usage.tokens_out, reported=usage.reported, cached=usage.cached)
    return DONE_EVENT
