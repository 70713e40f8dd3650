"""The server-sent events of a streamed answer: which lines the client gets, and how many tokens were used."""

from __future__ import annotations

import json
from typing import Any

from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.model_request import ModelRequest

CHARACTERS_PER_TOKEN = 4
DONE = b"[DONE]"
DONE_EVENT = b"data: [DONE]\n\n"


class TokenUsage:
    """Tokens as the provider reports them; estimated until then."""

    def __init__(self, request: ModelRequest) -> None:
        self.tokens_in, self.tokens_out, self.cached, self.reported = request.expected_in, 0, 0, False

    def read(self, usage: object) -> None:
        """Take the `usage` object of an answer."""
        if not isinstance(usage, dict):
            return
        told_in = usage.get("prompt_tokens", usage.get("input_tokens"))
        told_out = usage.get("completion_tokens", usage.get("output_tokens", 0))  # embeddings say none
        if isinstance(told_in, int) and isinstance(told_out, int) and min(told_in, told_out) >= 0:
            self.tokens_in, self.tokens_out = told_in, told_out
            self.cached, self.reported = cached_tokens(usage, told_in), True

    def estimate(self, answer: dict[str, Any]) -> None:
        """Add tokens by the length of the text in `answer`."""
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            part = choice.get("delta") or choice.get("message") or choice if isinstance(choice, dict) else {}
            text = part.get("content") or part.get("text") or ""
            self.tokens_out += max(1, len(text) // CHARACTERS_PER_TOKEN)


def cached_tokens(usage: dict[str, Any], tokens_in: int) -> int:
    """Input tokens that the provider read from its cache; 0 where it does not report them."""
    details = usage.get("prompt_tokens_details")
    count = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    return min(count, tokens_in) if isinstance(count, int) and count > 0 else 0


class EventStream:
    """Filters the provider's lines; `done` after its `[DONE]`."""

    def __init__(self, request: ModelRequest) -> None:
        self.usage, self.done = TokenUsage(request), False
        self._wants_usage = request.wants_usage

    def forward(self, line: bytes) -> bytes:
        """The client's form of a line, b"" for what it did not request. Raises ApiError for an error event."""
        if not line.startswith(b"data:"):
            return line + b"\n\n" if line.startswith(b":") else b""
        data = line[5:].strip()
        if data == DONE:
            self.done = True
            return DONE_EVENT
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return b""
        if not isinstance(event, dict):
            return b""
        return self._event(event, data)

    def check_done(self) -> None:
        """Raises ApiError when the answer ended without `[DONE]`."""
        if not self.done:
            raise ApiError(502, "upstream_broken", "the model's answer broke off", 1)

    def _event(self, event: dict[str, Any], data: bytes) -> bytes:
        if "error" in event:
            raise ApiError(
                502, "upstream_error", "the model's endpoint reported an error in the middle of its answer", 1
            )
        if event.get("usage"):
            self.usage.read(event["usage"])
            if not self._wants_usage:
                if not event.get("choices"):
                    return b""
                data = json.dumps({k: v for k, v in event.items() if k != "usage"}).encode()
        elif not self.usage.reported:
            self.usage.estimate(event)
        return b"data: " + data + b"\n\n"
