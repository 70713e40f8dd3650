"""A long conversation keeps what was told and what is fresh; what was shortened may be asked for again."""

from __future__ import annotations

from tests.agents.chat.conftest import GOOD, PROMPT, Sit
from tests.chat_server import Call, Reply
from tuneloop.agents.chat.fallback_model import FRESH, LONG, SHORTENED, shorten_conversation
from tuneloop.agents.chat.models import estimate_tokens
from tuneloop.core.transcript import Message, ToolRequest


def talk(results: int, letters: int) -> list[Message]:
    said = [Message(role="system", content="s" * 4000), Message(role="user", content="facts " * 2000)]
    for i in range(results):
        said.append(Message(role="assistant", asks=(ToolRequest(id=str(i), name="look", arguments={"where": str(i)}),)))
        said.append(Message(role="tool", content=f"result {i} " + "x" * letters, call=str(i), name="look"))
    return said


def test_a_short_one_stays_as_it_is() -> None:
    assert shorten_conversation(talk(10, 1000)) == talk(10, 1000)


def test_a_long_one_keeps_facts_and_what_is_fresh() -> None:
    whole = talk(30, 5000)
    short = shorten_conversation(whole)
    assert estimate_tokens(whole) > LONG > estimate_tokens(short)
    assert len(short) == len(whole)
    assert short[:2] == whole[:2]
    assert [m for m in short if m.role == "assistant"] == [m for m in whole if m.role == "assistant"]
    results = [m.text for m in short if m.role == "tool"]
    assert results[-FRESH:] == [m.text for m in whole if m.role == "tool"][-FRESH:]
    assert all(text.startswith(f"result {i} ") and text.endswith(SHORTENED) for i, text in enumerate(results[:-FRESH]))
    assert shorten_conversation(short) == short


def test_what_was_shortened_may_be_asked_for_again(sit: Sit) -> None:
    looks = [Reply("", (Call("data_look", {"where": str(i)}),)) for i in (*range(30), 0)]
    table = sit(*looks, GOOD, TUNELOOP_CHAT_STEPS=40)
    table.tools.looks = 5000
    table.ask()
    last = table.chat.seen[-1]["messages"]
    assert last[1]["content"] == PROMPT.split("\n---\n")[1]
    results = [m["content"] for m in last if m["role"] == "tool"]
    assert results[0].endswith(SHORTENED)
    assert '"letters"' in results[-1], "no reminder, the result itself"
