"""A streamed answer: what of it goes to the client, and how many tokens it took."""

from __future__ import annotations

import json
from typing import Any

from tuneloop.tools.proxy.asked import Asked
from tuneloop.tools.proxy.refusal import Refused

CHARACTERS_PER_TOKEN = 4
DONE = b"[DONE]"
LAST = b"data: [DONE]\n\n"


class Usage:
    """Tokens as the provider counts them; guessed until it says so."""

    def __init__(self, asked: Asked) -> None:
        self.tokens_in, self.tokens_out, self.cached, self.told = asked.expected_in, 0, 0, False

    def hear(self, found: object) -> None:
        """What an answer says under `usage`."""
        if not isinstance(found, dict):
            return
        counts = found.get("prompt_tokens", 0), found.get("completion_tokens", 0)
        if all(isinstance(count, int) and count >= 0 for count in counts):
            self.tokens_in, self.tokens_out = counts
            self.cached, self.told = from_cache(found, counts[0]), True

    def guess(self, answer: dict[str, Any]) -> None:
        """From the length of what was written."""
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            said = choice.get("delta") or choice.get("message") or choice if isinstance(choice, dict) else {}
            text = said.get("content") or said.get("text") or ""
            self.tokens_out += max(1, len(text) // CHARACTERS_PER_TOKEN)


def from_cache(usage: dict[str, Any], tokens_in: int) -> int:
    """Tokens in that the provider read from its cache; 0 where it does not say."""
    details = usage.get("prompt_tokens_details")
    told = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    return min(told, tokens_in) if isinstance(told, int) and told > 0 else 0


class Stream:
    """Line for line; `done` when the provider said so."""

    def __init__(self, asked: Asked) -> None:
        self.usage, self.done = Usage(asked), False
        self._wants_usage = asked.wants_usage

    def pass_on(self, line: bytes) -> bytes:
        """The client's form of a line, b"" for what it did not ask for. Raises Refused where the provider reports an error."""
        if not line.startswith(b"data:"):
            return line + b"\n\n" if line.startswith(b":") else b""
        data = line[5:].strip()
        if data == DONE:
            self.done = True
            return LAST
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return b""
        if not isinstance(event, dict):
            return b""
        return self._event(event, data)

    def check_done(self) -> None:
        """Raises Refused when the answer ended without the word for it."""
        if not self.done:
            raise Refused(502, "upstream_broken", "the model's answer broke off", 1)

    def _event(self, event: dict[str, Any], data: bytes) -> bytes:
        if "error" in event:
            raise Refused(
                502, "upstream_error", "the model's endpoint reported an error in the middle of its answer", 1
            )
        if event.get("usage"):
            self.usage.hear(event["usage"])
            if not self._wants_usage:
                if not event.get("choices"):
                    return b""
                data = json.dumps({k: v for k, v in event.items() if k != "usage"}).encode()
        elif not self.usage.told:
            self.usage.guess(event)
        return b"data: " + data + b"\n\n"
