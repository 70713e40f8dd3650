"""Parses and checks a job's request for a model: its endpoint, model and limits; refuses fields that reach further."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tuneloop.tools.llm_proxy.errors import ApiError

ENDPOINTS = ("chat/completions", "completions", "embeddings")
BYTES_PER_TOKEN = 3  # a cautious estimate; the tokens used are booked afterwards
ANSWER_TOKENS = 1024  # expected of an answer without max_tokens
MAX_ANSWERS = 64
MAX_TOKENS = 10_000_000
# The allowed fields. Gateways to several providers know more: fallback models, web search, addresses, dearer service tiers.
FIELDS = frozenset(
    """
    model messages prompt suffix echo input encoding_format dimensions input_type user safety_identifier prompt_cache_key
    n best_of max_tokens max_completion_tokens min_tokens stop stop_token_ids ignore_eos stream stream_options seed
    temperature top_p top_k min_p typical_p frequency_penalty presence_penalty repetition_penalty length_penalty logit_bias
    bad_words logprobs top_logprobs prompt_logprobs response_format tools tool_choice parallel_tool_calls functions
    function_call structured_outputs guided_json guided_regex guided_choice guided_grammar grammar json_schema
    reasoning_effort reasoning thinking enable_thinking thinking_budget include_reasoning verbosity chat_template_kwargs
    add_generation_prompt continue_final_message add_special_tokens skip_special_tokens prediction modalities audio
    """.split()  # noqa: SIM905 - easier to read as text
)


@dataclass(frozen=True)
class ModelRequest:
    """A checked request; `content` is the JSON for the provider: parsed, it would take thirty times the memory.

    `expected_in`, `expected_out`: tokens that are reserved for it. `sample`: the number of this drawing of an otherwise
    equal request, -1 without one; it is not passed on.
    """

    endpoint: str
    model: str
    content: bytes
    stream: bool
    wants_usage: bool
    repeatable: bool
    expected_in: int
    expected_out: int
    sample: int = -1


def parse_model_request(path: str, raw: bytes, models: Collection[str]) -> ModelRequest:
    """The request at `path` with the body `raw`. Raises ApiError."""
    endpoint = path.removeprefix("/v1/")
    if endpoint == path or endpoint not in ENDPOINTS:
        raise ApiError(
            404, "unknown_endpoint", f"no such endpoint; there are /v1/models and /v1/ with {', '.join(ENDPOINTS)}"
        )
    body = read_body(raw)
    sample = sample_number(body.pop("sample", None))
    model = body.get("model")
    if not isinstance(model, str) or model not in models:
        raise ApiError(
            403, "model_not_allowed", f"this job may not ask that model; right is one of {', '.join(models)}"
        )
    if found := next(forbidden(body), ""):
        raise ApiError(
            403, "not_allowed", f"{found} is not open to jobs; right is text, or data: URLs, in the request itself"
        )
    stream = flag(body, "stream") and endpoint != "embeddings"
    answers = max(number(body, name, MAX_ANSWERS) or 1 for name in ("n", "best_of")) * prompts(body)
    longest = (
        number(body, "max_completion_tokens", MAX_TOKENS) or number(body, "max_tokens", MAX_TOKENS) or ANSWER_TOKENS
    )
    options = body.get("stream_options")
    given = options if isinstance(options, dict) else {}
    return ModelRequest(
        endpoint=endpoint,
        model=model,
        content=to_json({**body, "stream_options": {**given, "include_usage": True}} if stream else body),
        stream=stream,
        wants_usage=given.get("include_usage") is True,
        repeatable=sample >= 0 or repeatable(endpoint, body),
        expected_in=len(raw) // BYTES_PER_TOKEN + 1,
        expected_out=0 if endpoint == "embeddings" else longest * answers,
        sample=sample,
    )


def read_body(raw: bytes) -> dict[str, Any]:
    """A JSON object without NaN. Raises ApiError."""
    try:
        body = json.loads(raw, parse_constant=reject_constant)
    except (ValueError, RecursionError) as e:
        raise ApiError(400, "invalid_json", "the body is no JSON that can be read") from e
    if not isinstance(body, dict):
        raise ApiError(400, "invalid_json", "the body is no JSON object")
    return body


def to_json(body: dict[str, Any]) -> bytes:
    """The body as JSON. Raises ApiError."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (ValueError, RecursionError) as e:
        raise ApiError(400, "invalid_json", "the body has a number without bounds, or is nested too deeply") from e


def reject_constant(name: str) -> float:
    """NaN and Infinity are no JSON."""
    raise ValueError(name)


def flag(body: dict[str, Any], name: str) -> bool:
    """A boolean, false when absent. Raises ApiError."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, "invalid_value", f"{name} is neither true nor false")
    return bool(value)


def number(body: dict[str, Any], name: str, maximum: int) -> int | None:
    """A positive whole number, None when absent. Raises ApiError."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= maximum:
        raise ApiError(400, "invalid_value", f"{name} is no whole number from 1 to {maximum}")
    return value


def sample_number(value: object) -> int:
    """The number of the sample, -1 when absent. Raises ApiError."""
    if value is None:
        return -1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
        raise ApiError(400, "invalid_value", f"sample is no whole number from 0 to {MAX_TOKENS}")
    return value


def repeatable(endpoint: str, body: dict[str, Any]) -> bool:
    """Whether the answer may be cached: temperature 0, a seed, or an embedding."""
    temperature, seed = body.get("temperature"), body.get("seed")
    greedy = isinstance(temperature, int | float) and not isinstance(temperature, bool) and temperature == 0
    return endpoint == "embeddings" or greedy or (isinstance(seed, int) and not isinstance(seed, bool))


def prompts(body: dict[str, Any]) -> int:
    """Number of prompts in a list; a list of token ids is one prompt."""
    given = body.get("prompt")
    return sum(isinstance(one, str | list) for one in given) or 1 if isinstance(given, list) else 1


def forbidden(body: dict[str, Any]) -> Iterator[str]:
    """What could make the provider use the network, store the request, or ask another model."""
    unknown = (name for name, value in body.items() if name not in FIELDS and value is not None and value is not False)
    yield from (f"the field {ascii(name)[:80]}" for name in unknown)
    tools = body.get("tools") or []
    if not isinstance(tools, list) or any(not isinstance(t, dict) or t.get("type") != "function" for t in tools):
        yield "a tool that is no function"
    messages = body.get("messages") or []
    if not isinstance(messages, list):
        raise ApiError(400, "invalid_value", "messages is no list")
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            yield from _forbidden_part(part)


def _forbidden_part(part: object) -> Iterator[str]:
    """A part of a message that refers to something outside of it."""
    if not isinstance(part, dict) or part.get("type") not in ("text", "image_url", "input_audio", "refusal"):
        yield "a part of a message other than text and images"
    elif part.get("type") == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if not isinstance(url, str) or not url.startswith("data:"):
            yield "an image at an address"
