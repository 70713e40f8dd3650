"""Takes an answer from the provider: books what it took, keeps it where that was asked for, and returns its end."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tuneloop.tools.proxy.answers import Answer
from tuneloop.tools.proxy.asked import Asked
from tuneloop.tools.proxy.events import LAST, Stream, Usage
from tuneloop.tools.proxy.ledger import Entry, Outcome
from tuneloop.tools.proxy.refusal import Refused
from tuneloop.tools.proxy.upstream import ANSWER_BYTES, Reply
from tuneloop.tools.proxy.wire import Wire

Keep = Callable[[Answer], Awaitable[None]]


@dataclass
class Ticket:
    """A request on its way: what is booked when it is over, however it ends. `cost` of tokens in, out, in from a cache."""

    entry: Entry
    cost: Callable[[int, int, int], float | None]
    begun: float = field(default_factory=time.monotonic)

    def use(self, tokens_in: int, tokens_out: int, *, told: bool, cached: int = 0) -> None:
        """What it took; `told` by the provider, or guessed; `cached`: of those in, read from its cache."""
        facts = {"tokens_in": tokens_in, "tokens_out": tokens_out, "tokens_cached": cached}
        cost = self.cost(tokens_in, tokens_out, cached)
        self.entry = self.entry.model_copy(update={**facts, "cost": cost, "estimated": not told})

    def settle(self, outcome: Outcome, status: int, **facts: object) -> None:
        """How it ended."""
        told = {"outcome": outcome, "status": status, "seconds": round(time.monotonic() - self.begun, 3), **facts}
        self.entry = self.entry.model_copy(update=told)


async def forget(answer: Answer) -> None:
    """What was not asked to be repeatable is not kept."""


async def whole(asked: Asked, reply: Reply, ticket: Ticket, keep: Keep) -> bytes:
    """An answer in one piece. Raises Refused when it is none."""
    body = await reply.body()
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise Refused(502, "upstream_broken", "the model's endpoint answered something that is no JSON", 1) from e
    usage = Usage(asked)
    if isinstance(found, dict):
        usage.hear(found.get("usage"))
        if not usage.told:
            usage.guess(found)
    text = body.decode(errors="replace")
    await keep(Answer(text, usage.tokens_in, usage.tokens_out, usage.told))
    ticket.use(usage.tokens_in, usage.tokens_out, told=usage.told, cached=usage.cached)
    ticket.settle("answered", 200)
    return text.encode()


async def streamed(
    wire: Wire, asked: Asked, reply: Reply, ticket: Ticket, keep: Keep, check: Callable[[Asked, Usage], None]
) -> bytes:
    """Pass on what comes while `check` allows it; the last word, or why it ended before, is left to the caller."""
    stream, sent = Stream(asked), bytearray()
    ticket.settle("cut", 499, code="client_left")
    try:
        await wire.begin_stream()
        async for line in reply.lines():
            out = stream.pass_on(line)
            if stream.done:
                break
            check(asked, stream.usage)
            sent += out if len(sent) < ANSWER_BYTES else b""
            await wire.send(out)
        stream.check_done()
        if len(sent) < ANSWER_BYTES:
            text = (bytes(sent) + LAST).decode(errors="replace")
            await keep(Answer(text, stream.usage.tokens_in, stream.usage.tokens_out, stream.usage.told))
        ticket.settle("answered", 200, code="")
    except Refused as e:
        ticket.settle("cut", e.status, code=e.code)
        return b"data: " + e.body + b"\n\n"
    finally:
        usage = stream.usage
        ticket.use(usage.tokens_in, usage.tokens_out, told=usage.told, cached=usage.cached)
    return LAST
