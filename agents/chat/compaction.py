"""A conversation that grows long is told shorter: what the agent was told stays whole, old results keep their beginning."""

from __future__ import annotations

from collections.abc import Sequence

from tuneloop.agents.chat.asking import estimate
from tuneloop.core.model_call import Message

LONG = 24_000  # tokens of one request
FRESH = 4  # results that stay whole
KEPT = 300  # letters of an older one
SHORTENED = "\n[the rest was left out to save room; call the tool again if you need it]"


def compacted(messages: Sequence[Message]) -> list[Message]:
    """The same messages while there is room. Calls, their arguments and words of the agent are never shortened."""
    if estimate(messages) <= LONG:
        return list(messages)
    results = [i for i, message in enumerate(messages) if message.role == "tool"]
    old = set(results[:-FRESH])
    return [_short(message) if i in old else message for i, message in enumerate(messages)]


def _short(message: Message) -> Message:
    text = message.text
    if len(text) <= KEPT + len(SHORTENED):
        return message
    return message.model_copy(update={"content": text[:KEPT] + SHORTENED})
