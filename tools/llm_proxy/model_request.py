"""Makes of a job's request the one that a provider gets: known fields of known types, an allowed model, limits that agree."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.request_fields import BY_ENDPOINT, MAX_TOKENS, build_object

ENDPOINTS = tuple(BY_ENDPOINT)
BYTES_PER_TOKEN = 3  # a cautious estimate; the tokens used are booked afterwards
ANSWER_TOKENS = 1024  # expected of an answer without max_tokens


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
    given = read_body(raw)
    sample = sample_number(given.pop("sample", None))
    model = given.get("model")
    if not isinstance(model, str) or model not in models:
        raise ApiError(
            403, "model_not_allowed", f"this job may not ask that model; right is one of {', '.join(models)}"
        )
    body = canonical(endpoint, given)
    stream, wants_usage = bool(body.get("stream")), bool(body.get("stream_options", {}).get("include_usage"))
    if stream:
        body["stream_options"] = {**body.get("stream_options", {}), "include_usage": True}
    answers = max(body.get("n", 1), body.get("best_of", 1)) * prompts(body)
    return ModelRequest(
        endpoint=endpoint,
        model=model,
        content=to_json(body),
        stream=stream,
        wants_usage=wants_usage,
        repeatable=sample >= 0 or endpoint == "embeddings" or body.get("temperature") == 0 or "seed" in body,
        expected_in=len(raw) // BYTES_PER_TOKEN + 1,
        expected_out=0 if endpoint == "embeddings" else longest_answer(body) * answers,
        sample=sample,
    )


def canonical(endpoint: str, given: dict[str, Any]) -> dict[str, Any]:
    """The one request that is reserved, booked, cached and sent: known fields of known types. Raises ApiError."""
    try:
        body = build_object(given, BY_ENDPOINT[endpoint])
    except RecursionError as e:
        raise ApiError(400, "invalid_json", "the body is nested too deeply") from e
    most, older = body.get("max_completion_tokens"), body.get("max_tokens")
    if most is not None and older is not None:
        if most != older:
            raise ApiError(400, "invalid_value", "max_tokens and max_completion_tokens disagree; right is one of them")
        del body["max_tokens"]
    return body


def longest_answer(body: dict[str, Any]) -> int:
    """Tokens that one answer may have: what the request allows, or what it asks for at least."""
    allowed = body.get("max_completion_tokens") or body.get("max_tokens") or ANSWER_TOKENS
    thinking = body.get("thinking")
    budgets = (
        body.get("min_tokens", 0),
        body.get("thinking_budget", 0),
        body.get("reasoning", {}).get("max_tokens", 0),
        thinking.get("budget_tokens", 0) if isinstance(thinking, dict) else 0,
    )
    return int(max(allowed, *budgets))


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


def sample_number(value: object) -> int:
    """The number of the sample, -1 when absent. Raises ApiError."""
    if value is None:
        return -1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
        raise ApiError(400, "invalid_value", f"sample is no whole number from 0 to {MAX_TOKENS}")
    return value


def prompts(body: dict[str, Any]) -> int:
    """Number of prompts in a list; a list of token ids is one prompt."""
    given = body.get("prompt")
    return sum(isinstance(one, str | list) for one in given) or 1 if isinstance(given, list) else 1
