"""What of raw data may be shown: values with an item of a sealed test, or of the unseen half of validation, are omitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuneloop.tools.contamination.guard import Guard

SEALED = "the sealed test or of the validation half that is not shown"
CARD = f"[omitted: this card holds an item of {SEALED}]"
LINE = f"[omitted: this holds an item of {SEALED}]"


def find_sealed(guard: Guard | None, values: Sequence[Any]) -> list[bool]:
    """For each value, any JSON, whether it holds an item that nobody may see; without a guard there is none to hold."""
    if guard is None:
        return [False] * len(values)
    return [hit is not None and hit.sealed for hit in guard.find(values)]


def filter_text(guard: Guard | None, text: str, instead: str) -> str:
    """The text, or what is said instead of one that holds a sealed item."""
    return instead if find_sealed(guard, [text])[0] else text


def filter_lines(guard: Guard, text: str) -> str:
    """The text without the lines that hold a sealed item; none of it where the lines hold one together."""
    lines = text.splitlines()
    kept = [LINE if held else line for line, held in zip(lines, find_sealed(guard, lines), strict=True)]
    return filter_text(guard, "\n".join(kept), LINE)


def withheld_notice(count: int, what: str = "rows") -> dict[str, str]:
    """The line of an answer from which so many were omitted; nothing where none were."""
    if not count:
        return {}
    return {"omitted": f"{count} {what} not shown: they hold items of {SEALED}, and are not trained on either"}
