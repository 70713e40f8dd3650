"""What a job may ask, and what would reach further than a model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.model_request import ANSWER_TOKENS, parse_model_request

CHAT = "/v1/chat/completions"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def image(url: Any) -> dict[str, Any]:
    return {**HELLO, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]}


IMAGE = {"type": "image_url", "image_url": {"url": "http://example.org/x.png"}}


def message(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", **fields}]}


def ask(body: Any, path: str = CHAT) -> Any:
    return parse_model_request(path, body if isinstance(body, bytes) else json.dumps(body).encode(), ("m",))


def test_expected_tokens() -> None:
    request = ask({**HELLO, "max_tokens": 7, "n": 3})
    assert (request.expected_out, request.stream, request.repeatable) == (21, False, False)
    assert request.expected_in > len("hello") / 3
    assert ask(HELLO).expected_out == ANSWER_TOKENS
    assert ask({"model": "m", "input": "x"}, "/v1/embeddings").expected_out == 0
    many = {"model": "m", "prompt": ["a", "b", "c"], "max_tokens": 7}
    assert ask(many, "/v1/completions").expected_out == 21, "every prompt of a list is answered"
    assert ask({**many, "best_of": 4, "n": 2}, "/v1/completions").expected_out == 84, "and written as often as is asked"
    assert ask({**many, "prompt": [17, 4, 9]}, "/v1/completions").expected_out == 7, "a text in tokens"


def test_streams_always_request_usage() -> None:
    request = ask({**HELLO, "stream": True})
    assert (json.loads(request.content)["stream_options"], request.wants_usage) == ({"include_usage": True}, False)
    assert ask({**HELLO, "stream": True, "stream_options": {"include_usage": True}}).wants_usage


@pytest.mark.parametrize("more", [{"temperature": 0}, {"temperature": 0.0}, {"seed": 1}, {"seed": 0}])
def test_repeatable(more: dict[str, Any]) -> None:
    assert ask({**HELLO, **more}).repeatable


def test_numbered_sample() -> None:
    request = ask({**HELLO, "temperature": 1, "sample": 3})
    assert (request.repeatable, request.sample) == (True, 3)
    assert b"sample" not in request.content
    assert ask(HELLO).sample == ask({**HELLO, "sample": None}).sample == -1
    for wrong in (-1, True, "1", 1.5, 1 << 60):
        with pytest.raises(ApiError, match="sample is no whole number"):
            ask({**HELLO, "sample": wrong})


@pytest.mark.parametrize("more", [{}, {"temperature": 0.1}, {"seed": None}])
def test_not_repeatable(more: dict[str, Any]) -> None:
    assert not ask({**HELLO, **more}).repeatable


@pytest.mark.parametrize(
    "fine",
    [
        image({"url": "data:image/png;base64,AA=="}),
        {**HELLO, "messages": [{"role": "user", "content": [{"type": "text", "text": "http://x is only text"}]}]},
        {**HELLO, "tools": [{"type": "function", "function": {"name": "f"}}]},
        {**HELLO, "store": False, "web_search_options": None},
        {**HELLO, "messages": [{"role": "user", "content": "\ud800"}]},
    ],
)
def test_allowed_requests(fine: Any) -> None:
    assert ask(fine).model == "m"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "no JSON"),
        (b"[1]", 400, "no JSON object"),
        (b'{"model": "m", "x": NaN}', 400, "no JSON"),
        (b"[" * 100_000, 400, "no JSON"),
        (b'{"model": "m", "temperature": 1e999}', 400, "a number without bounds"),
        (b'{"n": ' + b"9" * 10_000 + b"}", 400, "no JSON"),
        (b"\xff\xfe\x00", 400, "no JSON"),
        ({**HELLO, "model": "other"}, 403, "right is one of m"),
        ({**HELLO, "model": ["m"]}, 403, "right is one of m"),
        ({"messages": []}, 403, "right is one of m"),
        ({**HELLO, "stream": "yes"}, 400, "stream"),
        ({**HELLO, "n": 0}, 400, "n is no whole number"),
        ({**HELLO, "n": 10**9}, 400, "n is no whole number"),
        ({**HELLO, "max_tokens": -1}, 400, "max_tokens"),
        ({**HELLO, "max_tokens": 1.5}, 400, "max_tokens"),
        ({**HELLO, "messages": {"role": "user"}}, 400, "messages"),
        (image({"url": "https://example.org/x?leak"}), 403, "an image at an address"),
        (image("http://example.org/x"), 403, "an image at an address"),
        (image(None), 403, "an image at an address"),
        ({**HELLO, "messages": [{"content": [{"type": "file", "file": {"file_id": "x"}}]}]}, 403, "other than text"),
        ({**HELLO, "store": True}, 403, "store"),
        ({**HELLO, "web_search_options": {}}, 403, "web_search_options"),
        ({**HELLO, "models": ["dearer"]}, 403, "the field 'models'"),
        ({**HELLO, "fallbacks": ["dearer"]}, 403, "fallbacks"),
        ({**HELLO, "plugins": [{"id": "web"}]}, 403, "plugins"),
        ({**HELLO, "api_base": "http://elsewhere"}, 403, "api_base"),
        ({**HELLO, "service_tier": "priority"}, 403, "service_tier"),
        ({**HELLO, "\x1b[2J\ud800": 1}, 403, "x1b"),
        ({**HELLO, "tools": [{"type": "web_search"}]}, 403, "no function"),
        ({**HELLO, "tools": "all"}, 403, "no function"),
        ({**HELLO, "temperature": False}, 400, "temperature"),
        ({**HELLO, "seed": True}, 400, "seed"),
        ({**HELLO, "max_tokens": 1, "max_completion_tokens": 9_000_000}, 400, "disagree"),
        ({**HELLO, "max_tokens": 9_000_000, "max_completion_tokens": 1}, 400, "disagree"),
        (message(content=IMAGE), 403, "neither a text nor a list"),
        (message(content={"0": IMAGE}), 403, "neither a text nor a list"),
        (message(content=[[IMAGE]]), 403, "other than text"),
        (message(content=[{**IMAGE, "type": "text", "text": "x"}]), 403, "image_url"),
        (message(content=[{"type": "image_url", "url": "http://x/y.png"}]), 403, "an image at an address"),
        (message(content=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA== http://x"}}]), 403, "address"),
        (image({"url": "data:image/svg+xml;base64,AA=="}), 403, "an image at an address"),
        ({**HELLO, "guided_json": '{"items": {"$ref": "http://x"}}'}, 403, "address"),
        ({**HELLO, "structured_outputs": {"json": '{"\\u0024ref": "http://x"}'}}, 403, "address"),
        ({**HELLO, "guided_json": "{"}, 400, "no JSON Schema"),
        (message(content="x", image_url={"url": "http://x"}), 403, "image_url"),
        (message(content="x", tool_calls=[{"id": "1", "type": "function", "function": IMAGE}]), 403, "type"),
        ({**HELLO, "stream": True, "stream_options": {"callback": "http://x"}}, 403, "callback"),
        ({**HELLO, "response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "http://x"}}}}, 403, "address"),
        ({**HELLO, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [{"$ref": "file:///x"}]}}}]},
         403, "address"),
        ({**HELLO, "tools": [{"type": "function", "function": {"name": "f"}, "server_url": "http://x"}]}, 403, "server_url"),
        ({**HELLO, "prediction": {"type": "content", "content": [IMAGE]}}, 403, "an image at an address"),
        ({**HELLO, "chat_template_kwargs": {"x": {"url": "http://x"}}}, 400, "chat_template_kwargs"),
        ({**HELLO, "audio": {"voice": "http://x"}}, 403, "audio"),
        ({**HELLO, "prompt": [IMAGE]}, 403, "prompt"),
        ({**HELLO, "metadata": {"a": "b"}}, 403, "metadata"),
    ],
)  # fmt: skip
def test_refused_requests(body: Any, status: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        ask(body)
    assert caught.value.status == status
    assert json.loads(caught.value.body)["error"]["message"] == caught.value.text


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/files", "/v1/../chat/completions", "http://evil/v1/chat/completions"]
)
def test_unknown_routes(path: str) -> None:
    with pytest.raises(ApiError) as caught:
        ask(HELLO, path)
    assert caught.value.status == 404


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
@pytest.mark.parametrize("given", [[IMAGE], IMAGE, {"image_url": "http://x"}, [["x", IMAGE]], [["x"]], 7])
def test_prompts_and_inputs_are_texts_or_tokens(path: str, given: Any) -> None:
    field = "prompt" if path == "/v1/completions" else "input"
    with pytest.raises(ApiError):
        ask({"model": "m", field: given}, path)


def test_what_is_sent_is_built_of_known_fields() -> None:
    """Every allowed form comes out as it is reserved: one limit, an image as an object, nothing else."""
    same = {
        **HELLO,
        "max_tokens": 7,
        "max_completion_tokens": 7,
        "store": False,
        "web_search_options": None,
        "stop": "x",
    }
    assert json.loads(ask(same).content) == {**HELLO, "max_completion_tokens": 7, "stop": "x"}
    url = "data:image/png;base64,AA=="
    sent = json.loads(ask(message(content=[{"type": "image_url", "image_url": url}])).content)
    assert sent["messages"][0]["content"] == [{"type": "image_url", "image_url": {"url": url}}]
    assert b"sample" not in ask({**HELLO, "sample": 1}).content
    long = {**HELLO, "max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 4000}, "min_tokens": 2}
    assert ask(long).expected_out == 4000


def test_a_local_schema_passes_unchanged() -> None:
    found = {"type": "object", "properties": {"image_url": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}
    asked = {**HELLO, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": found}}}
    assert json.loads(ask(asked).content) == asked
