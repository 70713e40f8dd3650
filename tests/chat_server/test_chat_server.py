"""The fake provider against the client that the agents use: what it says is heard, what it breaks is felt."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.chat_server import Call, Chat, Cut, Garbage, Hang, Refuse, Reply, Said, chat_server

TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
SAID = Reply("Let me look.", (Call("look", {"where": "there " * 20}),), usage=(100, 7, 60))


def ask(chat: Chat, **more: Any) -> Any:
    client = openai.OpenAI(api_key="sk-test", base_url=chat.url, max_retries=0, timeout=more.pop("timeout", 20))
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], **more)


def test_a_whole_answer_with_a_call() -> None:
    with chat_server(lambda _: SAID) as chat:
        found = ask(chat, tools=TOOLS)
    assert found.choices[0].message.tool_calls[0].function.arguments == SAID.calls[0].text
    assert found.usage.prompt_tokens_details.cached_tokens == 60
    assert (chat.seen[0]["model"], chat.keys) == ("m", ["Bearer sk-test"])
    assert chat.heads[0]["content-type"] == "application/json"


def test_the_same_in_pieces() -> None:
    with chat_server(lambda _: SAID) as chat:
        pieces = list(ask(chat, tools=TOOLS, stream=True, stream_options={"include_usage": True}))
    deltas = [piece.choices[0].delta for piece in pieces if piece.choices]
    assert "".join(delta.content or "" for delta in deltas) == SAID.text
    parts = [call.function.arguments for delta in deltas for call in delta.tool_calls or []]
    assert ("".join(parts), len(parts) > 2) == (SAID.calls[0].text, True)
    assert pieces[-1].usage.completion_tokens == 7


def test_faults() -> None:
    faults: list[Said] = [Refuse(429, "slow down", headers={"Retry-After": "7"}), Cut(SAID), Garbage(), Hang()]
    with chat_server(lambda _: faults.pop(0)) as chat:
        with pytest.raises(openai.RateLimitError) as slow:
            ask(chat)
        assert slow.value.response.headers["Retry-After"] == "7"
        with pytest.raises(openai.APIConnectionError):
            ask(chat)
        with pytest.raises(ValueError, match="Expecting value"):
            ask(chat)
        with pytest.raises(openai.APITimeoutError):
            ask(chat, timeout=0.3)


def test_a_stream_that_is_cut_or_falls_silent() -> None:
    faults: list[Said] = [Cut(SAID, 2), Hang(SAID, 2)]
    with chat_server(lambda _: faults.pop(0)) as chat:
        cut = list(ask(chat, stream=True))
        assert (len(cut), cut[-1].choices[0].finish_reason) == (2, None)
        with pytest.raises(Exception, match="timed out"):
            list(ask(chat, stream=True, timeout=0.3))


def test_powers() -> None:
    with chat_server(lambda _: SAID, powers={"tools": "refused"}) as chat:
        with pytest.raises(openai.BadRequestError, match="'tools' is not supported"):
            ask(chat, tools=TOOLS)
        assert "I would now use look" in ask(chat).choices[0].message.content
