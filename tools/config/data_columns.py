"""Columns and tags that a registration promises, and which of them the engine needs."""

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
