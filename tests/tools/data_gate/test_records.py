"""Every registration that the engine knows is read; what is wrong is named with its field."""

from typing import Any

import pytest

from tuneloop.tools.data_gate.records import RecordError, TrainingRow, find_empty_part, schema_of

SHAREGPT = {"formatting": "sharegpt", "columns": {"messages": "conversations", "system": "system"}}
TOOLS = {"formatting": "sharegpt", "columns": {"messages": "conversations", "tools": "tools"}}
OPENAI = {
    "formatting": "openai",
    "columns": {"messages": "messages"},
    "tags": {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "observation_tag": "tool",
        "function_tag": "function",
        "system_tag": "system",
    },
}
PAIRS = {"ranking": True, "columns": {"prompt": "q", "chosen": "good", "rejected": "bad"}}
CHAT_PAIRS = {
    "formatting": "sharegpt",
    "ranking": True,
    "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"},
}
JUDGED = {"columns": {"prompt": "q", "response": "a", "kto_tag": "label"}}
PAST = {"columns": {"prompt": "q", "response": "a", "history": "past", "system": "sys"}}


CALL = '{"name": "add", "arguments": {}}'


def human(text: Any) -> dict[str, Any]:
    return {"from": "human", "value": text}


def gpt(text: Any) -> dict[str, Any]:
    return {"from": "gpt", "value": text}


def said(*roles: str) -> dict[str, Any]:
    said = {role: CALL if role == "function" else role[0] for role in roles}
    return {"messages": [{"role": role, "content": said[role]} for role in roles]}


@pytest.mark.parametrize(
    ("entry", "record", "turns", "answers"),
    [
        (None, {"instruction": "a", "input": "b", "output": "c"}, ("a\nb",), ("c",)),
        (None, {"instruction": "a", "output": "c"}, ("a",), ("c",)),
        (None, {"instruction": "a", "input": None, "output": "c", "more": 1}, ("a",), ("c",)),
        (SHAREGPT, {"conversations": [human("a"), gpt("b"), human("c"), gpt("d")]}, ("a", "b", "c"), ("d",)),
        (SHAREGPT, {"conversations": [{"from": "system", "value": "s"}, human("a"), gpt("b")]}, ("a",), ("b",)),
        (OPENAI, said("system", "user", "assistant"), ("u",), ("a",)),
        (
            OPENAI,
            said("user", "function", "tool", "tool", "assistant"),
            ("u", CALL, "t\n</tool_response>\n<tool_response>\nt"),
            ("a",),
        ),
        (PAIRS, {"q": "a", "good": "b", "bad": "c"}, ("a",), ("b", "c")),
        (CHAT_PAIRS, {"conversations": [human("a")], "chosen": gpt("b"), "rejected": gpt("c")}, ("a",), ("b", "c")),
        (JUDGED, {"q": "a", "a": "b", "label": False}, ("a",), ("b",)),
        (PAST, {"q": "e", "a": "f", "past": [["a", "b"]], "sys": "s"}, ("a", "b", "e"), ("f",)),
    ],
)
def test_what_is_right_is_read(
    entry: dict[str, Any] | None, record: Any, turns: tuple[str, ...], answers: tuple[str, ...]
) -> None:
    row = schema_of(entry).read(record)
    assert isinstance(row, TrainingRow), row
    assert (row.turns, row.answers) == (turns, answers)
    assert find_empty_part(row) is None
    assert row.kept.keys() <= schema_of(entry).fields


def test_system_and_judgement_are_kept() -> None:
    row = schema_of(PAST).read({"q": "e", "a": "f", "sys": "s", "x": 1})
    assert isinstance(row, TrainingRow)
    assert (row.system, row.kept) == ("s", {"q": "e", "a": "f", "sys": "s"})
    judged = schema_of(JUDGED).read({"q": "a", "a": "b", "label": True})
    assert isinstance(judged, TrainingRow)
    assert judged.good is True


@pytest.mark.parametrize(
    ("entry", "record", "field", "found", "expected"),
    [
        (SHAREGPT, [], "", "is a list, no object", "conversations: a list of turns, each with from and value"),
        (SHAREGPT, {"messages": []}, "", 'no field "conversations" (it has: messages)', "a list of turns"),
        (SHAREGPT, {"conversations": []}, "conversations", "is an empty list", "a list of turns"),
        (SHAREGPT, {"conversations": ["a"]}, "conversations[0]", "is text", "from and value, both text"),
        (SHAREGPT, {"conversations": [human("a"), gpt(5)]}, "conversations[1]", "has value: a number", "both text"),
        (SHAREGPT, {"conversations": [{"role": "user"}]}, "conversations[0]", 'no "from" (it has: role)', "both text"),
        (SHAREGPT, {"conversations": [gpt("a"), human("b")]}, "conversations, turn 1", "is by 'gpt'", "by 'human'"),
        (SHAREGPT, {"conversations": [human("a")]}, "conversations", "has 1 turns", "end with an answer"),
        (OPENAI, said("system"), "messages", "has 0 turns", "end with an answer"),
        (
            TOOLS,
            {"conversations": [human("a"), gpt("b")], "tools": "[" * 100_000},
            "tools",
            "is no JSON (nested too deeply)",
            "a JSON list",
        ),
        (
            SHAREGPT,
            {"conversations": [human("a"), {"from": "function_call", "value": "[" * 100_000}]},
            "conversations[1]",
            "no JSON (nested too deeply)",
            "both text",
        ),
        (OPENAI, said("user", "user"), "messages, turn 2", "is by 'user'", "one by 'assistant'"),
        (OPENAI, said("human", "assistant"), "messages, turn 1", "is by 'human'", "one by 'user'"),
        (PAIRS, {"q": "a", "good": "b"}, "", 'no field "bad"', "q, good, bad, all text"),
        (PAIRS, {"q": "a", "good": "b", "bad": [1]}, "bad", "is a list", "text"),
        (CHAT_PAIRS, {"conversations": [human("a")], "chosen": gpt("b")}, "", 'no field "rejected"', "one turn"),
        (
            CHAT_PAIRS,
            {"conversations": [human("a")], "chosen": "b", "rejected": gpt("c")},
            "chosen",
            "is text",
            "one turn",
        ),
        (JUDGED, {"q": "a", "a": "b"}, "label", "is missing", "true or false"),
        (JUDGED, {"q": "a", "a": "b", "label": "yes"}, "label", "is text", "true or false"),
        (PAST, {"q": "a", "a": "b", "past": [["a"]]}, "past", "something else", "[question, answer]"),
        (PAST, {"q": "a", "a": "b", "sys": 1}, "sys", "is a number", "text"),
    ],
)
def test_what_is_wrong_is_named(entry: dict[str, Any], record: Any, field: str, found: str, expected: str) -> None:
    wrong = schema_of(entry).read(record)
    assert isinstance(wrong, RecordError), wrong
    assert wrong.field == field
    assert found in wrong.found
    assert expected in wrong.expected


def test_empty_parts() -> None:
    assert find_empty_part(TrainingRow((" ",), ("a",), {})) == "asked"
    assert find_empty_part(TrainingRow(("a",), ("a", "\n"), {})) == "answered"
    assert find_empty_part(TrainingRow(("a",), ("b", "b"), {})) == "no pair"
