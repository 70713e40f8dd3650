"""The fields that a job may send to a model, with their types: the request for the provider is built of these alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from tuneloop.tools.llm_proxy.errors import ApiError

# A shape takes a value as it came and its name, and gives the value as it is sent, or raises ApiError. Gateways to
# several providers know more than is here: fallback models, web search, files at addresses, dearer service tiers. What
# no shape knows is refused, at every depth; None and False say nothing and are left out where nobody knows the field.

Shape = Callable[[Any, str], Any]
MAX_ANSWERS = 64
MAX_TOKENS = 10_000_000
LARGEST = 1 << 63
INLINE_IMAGE = re.compile(r"data:image/(?:png|jpe?g|gif|webp|bmp|tiff|avif|hei[cf]);base64,[A-Za-z0-9+/]*={0,2}")
INLINE_BYTES = re.compile(r"[A-Za-z0-9+/]*={0,2}")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def wrong(name: str, right: str) -> ApiError:
    """A value of the wrong kind."""
    return ApiError(400, "invalid_value", f"{name} is {right}")


def not_open(what: str) -> ApiError:
    """What could make the provider use the network, store the request, or ask another model."""
    return ApiError(
        403, "not_allowed", f"{what} is not open to jobs; right is text, or data: URLs, in the request itself"
    )


def text(value: Any, name: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise wrong(name, "no text")
    return value


def flag(value: Any, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise wrong(name, "neither true nor false")
    return value


def whole(low: int, high: int) -> Shape:
    """A whole number in a range."""

    def shape(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise wrong(name, f"no whole number from {low} to {high}")
        return value

    return shape


def real(low: float, high: float) -> Shape:
    """A number in a range."""

    def shape(value: Any, name: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(name, f"no number from {low} to {high}")
        if not math.isfinite(value) or not low <= value <= high:
            raise wrong(name, f"a number without bounds, or beyond them; right is {low} to {high}")
        return value

    return shape


def one_of(*words: str) -> Shape:
    """One of some words."""

    def shape(value: Any, name: str) -> str:
        if value not in words or not isinstance(value, str):
            raise wrong(name, f"none of {', '.join(words)}")
        return value

    return shape


def list_of(item: Shape) -> Shape:
    """A list of one shape."""

    def shape(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list):
            raise wrong(name, "no list")
        return [item(one, name) for one in value]

    return shape


def table_of(item: Shape) -> Shape:
    """An object with any names, and values of one shape."""

    def shape(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(name, "no object")
        return {key: item(one, f"{name}.{ascii(key)[1:-1][:40]}") for key, one in value.items()}

    return shape


def record(**fields: Shape) -> Shape:
    """An object with these fields and no other."""

    def shape(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(name, "no object")
        return build_object(value, fields, f"{name}.")

    return shape


def either(*shapes: Shape) -> Shape:
    """The first shape that fits; the last one says what is wrong."""

    def shape(value: Any, name: str) -> Any:
        for one in shapes[:-1]:
            try:
                return one(value, name)
            except ApiError:
                continue
        return shapes[-1](value, name)

    return shape


def build_object(value: Mapping[str, Any], fields: Mapping[str, Shape], where: str = "") -> dict[str, Any]:
    """The known fields of an object, each in its shape. Raises ApiError for any other that says something."""
    for name, one in value.items():
        if name not in fields and one is not None and one is not False:
            raise not_open(f"the field {ascii(where + name)[:80]}")
    return {name: shape(value[name], f"{where}{name}") for name, shape in fields.items() if value.get(name) is not None}


def schema(value: Any, name: str) -> Any:
    """A JSON Schema: names of its own at every depth, references into itself alone."""
    if isinstance(value, dict):
        if any(isinstance(value.get(key), str) and not value[key].startswith("#") for key in REFERENCES):
            raise not_open(f"a schema at an address in {name}")
        return {key: schema(one, name) for key, one in value.items()}
    return [schema(one, name) for one in value] if isinstance(value, list) else value


def schema_or_text(value: Any, name: str) -> Any:
    """A JSON Schema, or one as a text, which is sent as what it says."""
    if not isinstance(value, str):
        return schema(value, name)
    try:
        return schema(json.loads(value), name)
    except ValueError as e:
        raise wrong(name, "no JSON Schema") from e


def image(value: Any, name: str) -> dict[str, Any]:
    """An image that is in the request."""
    given = {"url": value} if isinstance(value, str) else value
    url = given.get("url") if isinstance(given, dict) else None
    if not isinstance(url, str) or not INLINE_IMAGE.fullmatch(url):
        raise not_open("an image at an address")
    return build_object(given, {"url": text, "detail": one_of("auto", "low", "high")}, f"{name}.")


def sound(value: Any, name: str) -> str:
    """Sound that is in the request."""
    if not isinstance(value, str) or not INLINE_BYTES.fullmatch(value):
        raise not_open(f"{name} that is not in base64")
    return value


PARTS: dict[str, dict[str, Shape]] = {
    "text": {"type": text, "text": text},
    "refusal": {"type": text, "refusal": text},
    "image_url": {"type": text, "image_url": image},
    "input_audio": {"type": text, "input_audio": record(data=sound, format=one_of("wav", "mp3"))},
}


def part(value: Any, name: str) -> dict[str, Any]:
    """A part of a message."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in PARTS:
        raise not_open("a part of a message other than text, images and sound")
    if kind == "image_url" and value.get(kind) is None:
        raise not_open("an image at an address")
    return build_object(value, PARTS[kind], f"{name}.")


def content(value: Any, name: str) -> Any:
    """What a message says: a text, or parts in a list."""
    if isinstance(value, list):
        return [part(one, name) for one in value]
    if not isinstance(value, str):
        raise not_open("a message that is neither a text nor a list of parts")
    return value


def function_tool(value: Any, name: str) -> dict[str, Any]:
    """A function that the model may call; every other tool is the provider's."""
    if not isinstance(value, dict) or value.get("type") != "function":
        raise not_open("a tool that is no function")
    return build_object(value, {"type": text, "function": FUNCTION}, f"{name}.")


def tools(value: Any, name: str) -> list[Any]:
    """Functions alone."""
    if not isinstance(value, list):
        raise not_open("a tool that is no function")
    return [function_tool(one, name) for one in value]


FUNCTION = record(name=text, description=text, parameters=schema, strict=flag)
CALL = record(name=text, arguments=text)
NAMED = record(name=text)
TOKEN_IDS = list_of(whole(0, MAX_TOKENS))
PROMPT = either(text, list_of(text), TOKEN_IDS, list_of(TOKEN_IDS))
SCALAR = either(text, flag, real(-1e9, 1e9))
SHARE, PENALTY, COUNT = real(0, 1), real(-1000, 1000), whole(1, MAX_TOKENS)
MESSAGE = record(
    role=one_of("system", "developer", "user", "assistant", "tool", "function"),
    content=content,
    name=text,
    tool_calls=list_of(record(id=text, type=one_of("function"), function=CALL, index=whole(0, 1000))),
    tool_call_id=text,
    function_call=CALL,
    refusal=text,
    reasoning=text,
    reasoning_content=text,
)
OF_ALL: dict[str, Shape] = {"model": text, "user": text, "safety_identifier": text, "prompt_cache_key": text}
OF_TEXTS: dict[str, Shape] = {
    **OF_ALL,
    **dict.fromkeys(("n", "best_of"), whole(1, MAX_ANSWERS)),
    **dict.fromkeys(("max_tokens", "min_tokens", "thinking_budget"), COUNT),
    **dict.fromkeys(("top_logprobs", "prompt_logprobs"), whole(0, 1000)),
    **dict.fromkeys(("top_p", "min_p", "typical_p"), SHARE),
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "repetition_penalty", "length_penalty"), PENALTY),
    **dict.fromkeys(("stream", "ignore_eos", "add_special_tokens", "skip_special_tokens"), flag),
    "stream_options": record(include_usage=flag, include_obfuscation=flag, continuous_usage_stats=flag),
    "stop": either(list_of(text), text),
    "stop_token_ids": TOKEN_IDS,
    "bad_words": list_of(text),
    "seed": whole(-LARGEST, LARGEST),
    "temperature": real(0, 100),
    "top_k": whole(-1, MAX_TOKENS),
    "logit_bias": table_of(real(-1000, 1000)),
    "logprobs": either(flag, whole(0, 1000)),
    "response_format": record(
        type=one_of("text", "json_object", "json_schema"),
        json_schema=record(name=text, description=text, schema=schema, strict=flag),
        schema=schema,
    ),
    "structured_outputs": record(json=schema_or_text, regex=text, choice=list_of(text), grammar=text, json_object=flag),
    "guided_json": schema_or_text,
    "json_schema": schema,
    "guided_choice": list_of(text),
    **dict.fromkeys(("guided_regex", "guided_grammar", "grammar"), text),
}
BY_ENDPOINT: dict[str, dict[str, Shape]] = {
    "chat/completions": {
        **OF_TEXTS,
        "messages": list_of(MESSAGE),
        "max_completion_tokens": COUNT,
        "tools": tools,
        "functions": list_of(FUNCTION),
        "tool_choice": either(text, record(type=one_of("function"), function=NAMED)),
        "function_call": either(text, NAMED),
        "prediction": record(type=one_of("content"), content=either(text, list_of(part))),
        "modalities": list_of(one_of("text")),
        "reasoning": record(effort=text, max_tokens=COUNT, exclude=flag, enabled=flag, summary=text),
        "thinking": either(flag, record(type=text, budget_tokens=COUNT)),
        "chat_template_kwargs": table_of(SCALAR),
        **dict.fromkeys(("reasoning_effort", "verbosity"), text),
        **dict.fromkeys(("enable_thinking", "include_reasoning", "parallel_tool_calls", "add_generation_prompt"), flag),
        "continue_final_message": flag,
    },
    "completions": {**OF_TEXTS, "prompt": PROMPT, "suffix": text, "echo": flag},
    "embeddings": {
        **OF_ALL,
        "input": PROMPT,
        "encoding_format": one_of("float", "base64"),
        "dimensions": COUNT,
        "input_type": text,
    },
}
