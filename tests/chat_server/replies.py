"""What a model says: words, calls of tools, a refusal; whole or in pieces, as the provider's powers allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of a tool; `arguments` as text are sent as they are, JSON or not."""

    name: str
    arguments: Json | str

    @property
    def text(self) -> str:
        """The arguments as they are sent."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    """`usage`: tokens in, out, and how many of those in came from the provider's cache; None: it doesn't say."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    refusal: str = ""
    finish: str = ""
    usage: tuple[int, int, int] | None = (10, 5, 0)

    def spelt(self) -> Reply:
        """The first call written as text: what a model without tools says when it was told how."""
        if not self.calls:
            return self
        call = self.calls[0]
        arguments = call.text
        return Reply(
            f'{self.text}\n```json\n{{"tool": "{call.name}", "arguments": {arguments}}}\n```', usage=self.usage
        )

    def message(self) -> Json:
        """As the one message of a whole answer."""
        said: Json = {"role": "assistant", "content": self.text or None}
        if self.refusal:
            said["refusal"] = self.refusal
        if self.calls:
            said["tool_calls"] = [_call(i, call) for i, call in enumerate(self.calls)]
        return said

    def deltas(self, size: int = 40) -> Iterator[Json]:
        """As the pieces of a stream."""
        yield {"role": "assistant", "content": ""}
        if self.refusal:
            yield {"refusal": self.refusal}
        for at in range(0, len(self.text), size):
            yield {"content": self.text[at : at + size]}
        for i, call in enumerate(self.calls):
            whole = _call(i, call)
            yield {"tool_calls": [{**whole, "index": i, "function": {"name": call.name, "arguments": ""}}]}
            for at in range(0, len(call.text), size):
                yield {"tool_calls": [{"index": i, "function": {"arguments": call.text[at : at + size]}}]}

    @property
    def ends(self) -> str:
        """`finish_reason`."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def tokens(self) -> Json | None:
        """`usage` as OpenAI writes it."""
        if self.usage is None:
            return None
        tokens_in, tokens_out, cached = self.usage
        return {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


def _call(number: int, call: Call) -> Json:
    return {"id": f"call_{number}", "type": "function", "function": {"name": call.name, "arguments": call.text}}
