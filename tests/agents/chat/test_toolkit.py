"""What a model reads is short, and the tool behind it is the same."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.agents.chat.toolkit import PAGE, Toolkit, compact_result, compact_schema, split_pages
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.errors import ToolError
from tuneloop.core.settings import Settings
from tuneloop.graph.agent_calls.replay import AGENTS
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.scope import Scope


def test_results_lose_what_says_nothing() -> None:
    result = {
        "a": 0.00101010101,
        "b": 3.0,
        "n": 0,
        "none": None,
        "no": False,
        "empty": "",
        "list": [],
        "rows": [{"x": {}}, 1],
    }
    assert json.loads(compact_result(result)) == {
        "a": 0.00101,
        "b": 3,
        "n": 0,
        "none": None,
        "no": False,
        "rows": [{}, 1],
    }
    assert compact_result({"a": [1, 2]}) == '{"a":[1,2]}'
    assert compact_result(float("inf")) == "Infinity"


def test_a_thin_schema_says_what_a_model_must_know() -> None:
    whole = {
        "type": "object", "additionalProperties": False, "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 9, "description": "a name"},
            "title": {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}], "default": None},
            "count": {"type": "integer", "minimum": 1, "default": 5},
            "values": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number", "title": "N"}]}},
        },
    }  # fmt: skip
    assert compact_schema(whole) == {
        "type": "object", "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "a name"},
            "title": {"enum": ["a", "b"]},
            "count": {"type": "integer", "default": 5},
            "values": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
        },
    }  # fmt: skip


def test_thin_schemas_of_every_tool_keep_names_and_what_is_required() -> None:
    """And take much less."""
    scope, every = Scope(None, Settings()), tuple({tool for agent in AGENTS.values() for tool in agent.tools})

    async def schemas() -> list[dict[str, Any]]:
        async with open_toolbox(scope, every) as tools:
            return [card.schema for card in await tools.cards()]

    found = run_sync(schemas())
    for schema in found:
        short = compact_schema(schema)
        assert list(short["properties"]) == list(schema["properties"])
        assert short.get("required") == schema.get("required")
    assert len(str([compact_schema(schema) for schema in found])) < 0.7 * len(str(found))


async def test_a_reason_is_said_once() -> None:
    class Box:
        async def call(self, tool: str, **arguments: Any) -> Any:
            return {"values": arguments, "why": {name: f"{name} is best" for name in arguments}}

    toolkit = Toolkit(Box(), SimpleNamespace(tool_called=lambda *_, **__: None))  # type: ignore[arg-type]
    ask = toolkit._tool_function("params_suggest_config")
    assert json.loads(await ask(a=1))["why"] == {"a": "a is best"}
    assert json.loads(await ask(a=1, b=2)) == {
        "values": {"a": 1, "b": 2},
        "why": {"b": "b is best", "others": "as above"},
    }
    toolkit.forget()
    assert json.loads(await ask(b=2))["why"] == {"b": "b is best"}


def test_pages_end_between_rows() -> None:
    rows = [[i, f'say "{i}", [twice]\n' * 9, {"deep": [i, i]}] for i in range(60)]
    text = compact_result({"columns": ["a", "b", "c"], "rows": rows})
    pages = split_pages(text)
    assert len(pages) > 3 and "".join(pages) == text
    assert all(len(page) <= PAGE for page in pages)
    assert all(page.endswith("]}],") for page in pages[:-1])
    assert [len(page) for page in split_pages("x" * (PAGE + 1))] == [PAGE, 1]


async def test_wrong_arguments_are_one_sentence(short_run) -> None:
    async with open_toolbox(Scope(short_run.run, Settings(FT_FILE_PATH=short_run.home)), None) as tools:
        with pytest.raises(ToolError) as refused:
            await tools.call("data_show_items", count="many", offset=-1)
    said = str(refused.value)
    assert "\n" not in said and "pydantic" not in said
    assert said.startswith("count: input should be a valid integer") and "; offset: " in said
