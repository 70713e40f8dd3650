"""Wishes are found in words, whatever stands around them; what was said survives the way to a provider and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.agents.chat.tool_calling import (
    as_plain_conversation,
    from_langchain,
    json_objects,
    next_dialect,
    parse_tool_call,
    to_langchain,
)
from tuneloop.core.transcript import Message, ToolRequest

FIELDS = {"explanation": {"type": "string"}, "lesson": {"type": "string"}}
CARDS: list[dict[str, Any]] = [
    {"function": {"name": "look", "description": "Look.", "parameters": {"properties": {"where": {}}}}},
    {"function": {"name": "Critique", "description": "Answer.", "parameters": {"properties": FIELDS}}},
]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"tool": "look", "arguments": {"where": "x"}}', "look", {"where": "x"}),
        ('Well:\n```json\n{"tool": "look", "arguments": {}}\n```\nThanks', "look", {}),
        ('{"tool": "look"}', "look", {}),
        ('{"explanation": "e", "lesson": "l"}', "Critique", {"explanation": "e", "lesson": "l"}),
        ('<think>{"tool": "look"}</think>{"lesson": "two\nlines"}', "Critique", {"lesson": "two\nlines"}),
        ('{"lesson": "thought"} so I look</think>{"tool": "look"}', "look", {}),
        ('<think>a</think><think>{"tool": "burn"}</think>{"tool": "look"}', "look", {}),
        ('{"tool": "look", "arguments": "{\\"where\\": \\"x\\"}"}', "look", {"where": "x"}),
        ('<tool_call>\n{"name": "look", "arguments": {"where": "x"}}\n</tool_call>', "look", {"where": "x"}),
        ('{"name": "look", "parameters": {"where": "x"}}', "look", {"where": "x"}),
        ('a {broken {"tool": "burn", "arguments": {"a": 1}}', "burn", {"a": 1}),
    ],
)
def test_a_wish_in_words(text: str, name: str, arguments: Any) -> None:
    asks = parse_tool_call(Message(role="assistant", content=text), CARDS, "Critique").asks
    assert [(ask.name, ask.arguments) for ask in asks] == [(name, arguments)]


@pytest.mark.parametrize("name", ["self", "tool", "config", "run_manager"])
def test_arguments_that_python_takes_for_its_own_are_told_to_the_model(name: str) -> None:
    asked = ToolRequest(id="1", name="look", arguments={name: "x", "where": "y"})
    sent = to_langchain(Message(role="assistant", asks=(asked,)))
    assert sent.tool_calls[0]["args"] == {"no_json": f"no tool knows {name}"}  # type: ignore[union-attr]


def test_arguments_in_a_text_that_is_cut_are_broken() -> None:
    (asked,) = parse_tool_call(
        Message(role="assistant", content='{"tool": "look", "arguments": "{\\"where"}'), CARDS, "Critique"
    ).asks
    assert (asked.name, asked.broken) == ("look", '{"where')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "{}",
        '<think>{"lesson": "a thought that never ends"}',
        '{"other": 1}',
        "[1, 2]",
        '{"tool": 5}',
        "{" * 50_000,
    ],
)
def test_words_without_a_wish(text: str) -> None:
    assert parse_tool_call(Message(role="assistant", content=text), CARDS, "Critique").asks == ()


@given(st.text(alphabet='{}[]":,a\\\n 1', max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert all(isinstance(found, dict) for found in json_objects(text))


def test_tools_stand_in_the_first_message_where_a_model_has_none() -> None:
    talk = [
        Message(role="system", content="You are the critic."),
        Message(role="user", content="Explain."),
        Message(role="assistant", asks=(ToolRequest(id="1", name="look", arguments={"where": "x"}),)),
        Message(role="tool", content="found", call="1", name="look"),
    ]
    said = as_plain_conversation(talk, CARDS, "Critique")
    assert [m.role for m in said] == ["system", "user", "assistant", "user"]
    assert said[0].text.startswith("You are the critic.")
    assert "### look" in said[0].text
    assert json.loads(said[2].text) == {"tool": "look", "arguments": {"where": "x"}}
    assert said[3].text == "Result of look:\n```\nfound\n```"
    assert as_plain_conversation(talk[:2], CARDS, "Critique")[0] == said[0], "the prefix stays the same"


def test_to_langchain_and_back() -> None:
    for message in (
        Message(role="system", content="s"),
        Message(role="user", content="u"),
        Message(role="tool", content="t", call="c", name="look"),
        Message(role="assistant", content="a", asks=(ToolRequest(id="c", name="look", arguments={"where": 1}),)),
    ):
        assert from_langchain(to_langchain(message)) == message


def test_the_ladder_ends() -> None:
    assert [next_dialect("tools"), next_dialect("schema"), next_dialect("text")] == ["schema", "text", None]
