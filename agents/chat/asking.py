"""One request to one model: streamed and shown while it comes, its silence bounded, its tokens counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import Runnable

from tuneloop.agents.chat.dialects import SCHEMA, Card, Dialect, from_langchain, heard, spoken, to_langchain
from tuneloop.agents.chat.failures import CutError
from tuneloop.core.model_call import Message, Tokens

# An answer may take so many times the seconds that a model may be silent.
PATIENCE = 10
# As o200k_base counts what agents are sent: 3.2 of talk, much of it JSON, 4.5 of tools.
LETTERS_PER_TOKEN, OF_TOOLS = 3, 4.5


@dataclass(frozen=True)
class Request:
    """`answer`: the tool whose arguments are the agent's answer; `silence`: seconds."""

    messages: Sequence[Message]
    tools: Sequence[Card]
    answer: str
    dialect: Dialect
    silence: float
    stream: bool
    most_tokens: int


async def send(model: BaseChatModel, request: Request, show: Callable[[str], None]) -> tuple[Message, Tokens]:
    """The reply in the agent's terms. Raises what the provider's client raises, TimeoutError and CutError."""
    plain = request.dialect != "tools"
    messages = spoken(request.messages, request.tools, request.answer) if plain else list(request.messages)
    sent = [to_langchain(message) for message in messages]
    client = _client(model, request)
    said = await (_streamed(client, sent, request, show) if request.stream else _whole(client, sent, request))
    reply = from_langchain(said)
    cards = () if plain else request.tools  # else they stand in the messages
    return heard(reply, request.tools, request.answer), tokens(said, messages, reply, cards)


def _client(model: BaseChatModel, request: Request) -> Runnable[Any, Any]:
    if request.dialect == "tools":
        return model.bind_tools(list(request.tools))
    return model.bind(response_format=SCHEMA) if request.dialect == "schema" else model


async def _whole(client: Runnable[Any, Any], sent: list[Any], request: Request) -> AIMessage:
    async with asyncio.timeout(request.silence):
        said: AIMessage = await client.ainvoke(sent)
    return said


async def _streamed(
    client: Runnable[Any, Any], sent: list[Any], request: Request, show: Callable[[str], None]
) -> AIMessage:
    """Piece by piece; what outgrows the agent's tokens is no longer listened to."""
    began, pieces, letters = time.monotonic(), list[AIMessageChunk](), 0
    async with asyncio.timeout(request.silence) as limit:
        stream = client.astream(sent)
        async for piece in stream:
            pieces.append(piece)
            words = piece.text + "".join(c.get("args") or "" for c in piece.tool_call_chunks)
            letters += len(words)
            show(words)
            if letters > LETTERS_PER_TOKEN * request.most_tokens:
                return _sum(pieces)
            left = PATIENCE * request.silence - (time.monotonic() - began)
            limit.reschedule(asyncio.get_running_loop().time() + min(request.silence, left))
    said = _sum(pieces)
    if said.response_metadata.get("model_provider") == "openai" and not said.response_metadata.get("finish_reason"):
        raise CutError("the stream broke off")
    return said


def _sum(pieces: list[AIMessageChunk]) -> AIMessageChunk:
    """All pieces as one, in time that grows with their number only."""
    if not pieces:
        raise CutError("the stream was empty")
    first, *rest = pieces
    return first.__add__(rest) if rest else first


def tokens(said: AIMessage, messages: Sequence[Message], reply: Message, tools: Sequence[Card] = ()) -> Tokens:
    """What the provider says it took; else an estimate from letters."""
    used = said.usage_metadata
    if used and (used["input_tokens"] or used["output_tokens"]):
        details: Any = used.get("input_token_details") or {}
        return Tokens(into=used["input_tokens"], out=used["output_tokens"], cached=details.get("cache_read") or 0)
    return Tokens(into=estimate(messages, tools), out=estimate((reply,)), estimated=True)


def estimate(messages: Sequence[Message], tools: Sequence[Card] = ()) -> int:
    """Tokens of some messages and tools, roughly."""
    letters = sum(len(m.text) + sum(len(str(a.arguments)) + len(a.name) for a in m.asks) for m in messages)
    return int(letters / LETTERS_PER_TOKEN + sum(len(str(card)) for card in tools) / OF_TOOLS) + 1
