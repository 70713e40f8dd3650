"""What of raw data may be shown: values that hold an item of a sealed test are withheld, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuneloop.tools.contamination.guard import Guard

CARD = "[withheld: this card holds an item of the sealed test]"
LINE = "[withheld: this holds an item of the sealed test]"


def sealed(guard: Guard | None, values: Sequence[Any]) -> list[bool]:
    """For each value, any JSON, whether it holds an item of a test; without a guard there is none to hold."""
    if guard is None:
        return [False] * len(values)
    return [hit is not None and hit.split == "test" for hit in guard.find(values)]


def open_text(guard: Guard | None, text: str, instead: str) -> str:
    """The text, or what is said instead of one that holds an item of a test."""
    return instead if sealed(guard, [text])[0] else text


def open_lines(guard: Guard, text: str) -> str:
    """The text without the lines that hold an item of a test; none of it where the lines hold one together."""
    lines = text.splitlines()
    kept = [LINE if held else line for line, held in zip(lines, sealed(guard, lines), strict=True)]
    return open_text(guard, "\n".join(kept), LINE)


def told(count: int, what: str = "rows") -> dict[str, str]:
    """The line of an answer from which so many were withheld; nothing where none were."""
    if not count:
        return {}
    return {"withheld": f"{count} {what} not shown: they hold items of the sealed test, and are not trained on either"}
