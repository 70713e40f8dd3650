"""Columns and tags that a registration promises, and what the engine cannot use of a record with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Columns:
    """A registration's columns and tags, with the engine's defaults."""

    formatting: str = "alpaca"
    ranking: bool = False
    prompt: str | None = "instruction"
    query: str | None = "input"
    response: str | None = "output"
    history: str | None = None
    messages: str | None = "conversations"
    system: str | None = None
    tools: str | None = None
    images: str | None = None
    videos: str | None = None
    audios: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    kto_tag: str | None = None
    role_tag: str | None = "from"
    content_tag: str | None = "value"
    user_tag: str | None = "human"
    assistant_tag: str | None = "gpt"
    observation_tag: str | None = "observation"
    function_tag: str | None = "function_call"
    system_tag: str | None = "system"

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Columns:
        """Where `columns` or `tags` stand, what they leave out is not looked for."""
        names = [f.name for f in fields(cls) if f.name not in ("formatting", "ranking")]
        given: dict[str, Any] = {}
        for what, tag in (("columns", False), ("tags", True)):
            if isinstance(told := entry.get(what), Mapping):
                given |= {name: told.get(name) for name in names if is_tag(name) == tag}
        return cls(formatting=entry.get("formatting", "alpaca"), ranking=bool(entry.get("ranking")), **given)


def is_tag(name: str) -> bool:
    """Whether it names a role or a part of a turn, not a column."""
    return name.endswith("_tag") and name != "kto_tag"


def required_columns(c: Columns, stage: str) -> Iterator[tuple[str, str | None]]:
    """Columns without which the engine fails or finds nothing."""
    if c.formatting == "alpaca":
        yield from ((role, name) for role in ("prompt", "query") if (name := getattr(c, role)) is not None)
        if stage in ("sft", "kto"):
            yield "response", c.response
    else:
        yield "messages", c.messages
    if c.ranking:
        yield "chosen", c.chosen
        yield "rejected", c.rejected
    if stage == "kto":
        yield "kto_tag", c.kto_tag
    optional = ("history", "system", "tools", "images", "videos", "audios") if c.formatting == "alpaca" else ("images",)
    yield from ((role, name) for role in optional if (name := getattr(c, role)) is not None)


def record_error(record: Mapping[str, Any], c: Columns, stage: str) -> str | None:
    """Why the engine drops a record, or, with a leading `!`, fails at it."""
    tag = record.get(c.kto_tag) if c.kto_tag else None
    if stage == "kto" and not isinstance(tag, bool):
        return f"{c.kto_tag!r} is {_json_kind(tag)}; right is true or false"
    if stage == "sft" and isinstance(tag, bool):
        return "is one half of a judgement (kto_tag), which stage: sft drops; write stage: kto"
    return _alpaca(record, c, stage) if c.formatting == "alpaca" else _chat(record, c)


def _alpaca(record: Mapping[str, Any], c: Columns, stage: str) -> str | None:
    for name in (c.prompt, c.query):
        if name and record.get(name) and not isinstance(record[name], str):
            return f"!{name!r} is {_json_kind(record[name])}; right is text"
    names = (c.chosen, c.rejected) if c.ranking else (c.response,) if stage in ("sft", "kto") else ()
    for name in names:
        if not isinstance(record.get(str(name)), str):
            return f"{name!r} is {_json_kind(record.get(str(name)))}; right is text"
    return None


def _chat(record: Mapping[str, Any], c: Columns) -> str | None:
    turns = record.get(str(c.messages))
    if not isinstance(turns, list):
        return f"!{c.messages!r} is {_json_kind(turns)}; right is a list of turns"
    roles = []
    for turn in turns:
        if not isinstance(turn, Mapping) or c.role_tag not in turn or c.content_tag not in turn:
            return f"!a turn has no {c.role_tag!r} and {c.content_tag!r}; name them as role_tag and content_tag in tags"
        roles.append(turn[c.role_tag])
    if roles and c.system_tag and roles[0] == c.system_tag:
        roles = roles[1:]
    return _roles(roles, c) or (_pair(record, c) if c.ranking else None) or ("has no turns" if not roles else None)


def _roles(roles: list[Any], c: Columns) -> str | None:
    asks, answers = (c.user_tag, c.observation_tag), (c.assistant_tag, c.function_tag)
    if c.formatting == "openai":  # results of tools in a row are one turn
        roles = [r for n, r in enumerate(roles) if r != c.observation_tag or roles[n - 1 : n] != [r]]
        for role in roles:
            if role not in (*asks, *answers, c.system_tag):
                return f"!role {role!r} is not among the tags; name it in tags of dataset_info.json"
    for n, role in enumerate(roles):
        if role not in (asks, answers)[n % 2]:
            return f"turn {n + 1} is by {role!r}; right is {(asks, answers)[n % 2][0]!r}, name others in tags"
    if len(roles) % 2 != int(c.ranking):
        return f"has {len(roles)} turns; {'an answer must not' if c.ranking else 'an answer must'} end them"
    return None


def _pair(record: Mapping[str, Any], c: Columns) -> str | None:
    for name in (c.chosen, c.rejected):
        turn = record.get(str(name))
        if not isinstance(turn, Mapping) or c.role_tag not in turn or c.content_tag not in turn:
            return f"{name!r} is {_json_kind(turn)}; right is one turn with {c.role_tag!r} and {c.content_tag!r}"
    return None


def _json_kind(value: Any) -> str:
    match value:
        case None:
            return "missing or null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
    return "an object"
