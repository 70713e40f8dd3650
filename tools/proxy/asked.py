"""Reads what a job asks: which endpoint, which model, how much at most; everything that could reach further is refused."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tuneloop.tools.proxy.refusal import Refused

ENDPOINTS = ("chat/completions", "completions", "embeddings")
BYTES_PER_TOKEN = 3  # a cautious guess; what was really used is booked afterwards
ANSWER_TOKENS = 1024  # expected of an answer whose request names no maximum
MOST_ANSWERS = 64
MOST_TOKENS = 10_000_000
# All that a request may say. Endpoints that stand before several providers know more: other models than the one that is
# asked, searches in the web, addresses, a dearer class of service.
FIELDS = frozenset(
    """
    model messages prompt suffix echo input encoding_format dimensions input_type user safety_identifier prompt_cache_key
    n best_of max_tokens max_completion_tokens min_tokens stop stop_token_ids ignore_eos stream stream_options seed
    temperature top_p top_k min_p typical_p frequency_penalty presence_penalty repetition_penalty length_penalty logit_bias
    bad_words logprobs top_logprobs prompt_logprobs response_format tools tool_choice parallel_tool_calls functions
    function_call structured_outputs guided_json guided_regex guided_choice guided_grammar grammar json_schema
    reasoning_effort reasoning thinking enable_thinking thinking_budget include_reasoning verbosity chat_template_kwargs
    add_generation_prompt continue_final_message add_special_tokens skip_special_tokens prediction modalities audio
    """.split()  # noqa: SIM905 - read as a text
)


@dataclass(frozen=True)
class Asked:
    """One request, checked; `content` is its JSON for the provider, not parsed: that would take thirty times the memory.

    `expected_in`, `expected_out`: tokens that are set aside for it. `sample`: which drawing of one and the same request it
    is, -1 where nobody numbered it; it is not passed on.
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


def read_asked(path: str, raw: bytes, models: Collection[str]) -> Asked:
    """The request at `path` with the body `raw`. Raises Refused in one sentence."""
    endpoint = path.removeprefix("/v1/")
    if endpoint == path or endpoint not in ENDPOINTS:
        raise Refused(
            404, "unknown_endpoint", f"no such endpoint; there are /v1/models and /v1/ with {', '.join(ENDPOINTS)}"
        )
    body = read_body(raw)
    sample = numbered(body.pop("sample", None))
    model = body.get("model")
    if not isinstance(model, str) or model not in models:
        raise Refused(403, "model_not_allowed", f"this job may not ask that model; right is one of {', '.join(models)}")
    if found := next(reaching(body), ""):
        raise Refused(
            403, "not_allowed", f"{found} is not open to jobs; right is text, or data: URLs, in the request itself"
        )
    stream = flag(body, "stream") and endpoint != "embeddings"
    answers = max(number(body, name, MOST_ANSWERS) or 1 for name in ("n", "best_of")) * prompts(body)
    longest = (
        number(body, "max_completion_tokens", MOST_TOKENS) or number(body, "max_tokens", MOST_TOKENS) or ANSWER_TOKENS
    )
    options = body.get("stream_options")
    given = options if isinstance(options, dict) else {}
    return Asked(
        endpoint=endpoint,
        model=model,
        content=written({**body, "stream_options": {**given, "include_usage": True}} if stream else body),
        stream=stream,
        wants_usage=given.get("include_usage") is True,
        repeatable=sample >= 0 or repeatable(endpoint, body),
        expected_in=len(raw) // BYTES_PER_TOKEN + 1,
        expected_out=0 if endpoint == "embeddings" else longest * answers,
        sample=sample,
    )


def read_body(raw: bytes) -> dict[str, Any]:
    """A JSON object without NaN. Raises Refused."""
    try:
        body = json.loads(raw, parse_constant=no_constant)
    except (ValueError, RecursionError) as e:
        raise Refused(400, "invalid_json", "the body is no JSON that can be read") from e
    if not isinstance(body, dict):
        raise Refused(400, "invalid_json", "the body is no JSON object")
    return body


def written(body: dict[str, Any]) -> bytes:
    """As JSON. Raises Refused."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (ValueError, RecursionError) as e:
        raise Refused(400, "invalid_json", "the body has a number without bounds, or is nested too deeply") from e


def no_constant(name: str) -> float:
    """NaN and Infinity are no JSON."""
    raise ValueError(name)


def flag(body: dict[str, Any], name: str) -> bool:
    """A boolean, false when absent. Raises Refused."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refused(400, "invalid_value", f"{name} is neither true nor false")
    return bool(value)


def number(body: dict[str, Any], name: str, most: int) -> int | None:
    """A positive whole number, None when absent. Raises Refused."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise Refused(400, "invalid_value", f"{name} is no whole number from 1 to {most}")
    return value


def numbered(value: object) -> int:
    """The number of a drawing, -1 when absent. Raises Refused."""
    if value is None:
        return -1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        raise Refused(400, "invalid_value", f"sample is no whole number from 0 to {MOST_TOKENS}")
    return value


def repeatable(endpoint: str, body: dict[str, Any]) -> bool:
    """Whether the same answer twice is what was asked for: temperature 0, a seed, or an embedding."""
    temperature, seed = body.get("temperature"), body.get("seed")
    still = isinstance(temperature, int | float) and not isinstance(temperature, bool) and temperature == 0
    return endpoint == "embeddings" or still or (isinstance(seed, int) and not isinstance(seed, bool))


def prompts(body: dict[str, Any]) -> int:
    """How many texts of a list are answered, each as often as is asked; a list of numbers is one text."""
    given = body.get("prompt")
    return sum(isinstance(one, str | list) for one in given) or 1 if isinstance(given, list) else 1


def reaching(body: dict[str, Any]) -> Iterator[str]:
    """What could make the provider reach out, remember, or ask another model."""
    unknown = (name for name, value in body.items() if name not in FIELDS and value is not None and value is not False)
    yield from (f"the field {ascii(name)[:80]}" for name in unknown)
    tools = body.get("tools") or []
    if not isinstance(tools, list) or any(not isinstance(t, dict) or t.get("type") != "function" for t in tools):
        yield "a tool that is no function"
    messages = body.get("messages") or []
    if not isinstance(messages, list):
        raise Refused(400, "invalid_value", "messages is no list")
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            yield from _elsewhere(part)


def _elsewhere(part: object) -> Iterator[str]:
    """A part of a message that is not in the message."""
    if not isinstance(part, dict) or part.get("type") not in ("text", "image_url", "input_audio", "refusal"):
        yield "a part of a message other than text and images"
    elif part.get("type") == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if not isinstance(url, str) or not url.startswith("data:"):
            yield "an image at an address"
