"""Finds the answer in a reply that was asked for a JSON object: reasoning before it is read over, the last object counts.

Molecules bring writings that are no JSON - a lone backslash, a comma too many or too few - so that the last `"key": value`
is looked for where no object can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..answer_matching import without_thoughts

WINDOW = 20_000
DECODER = json.JSONDecoder()
PAIR = re.compile(r'"([^"\\\n]{1,40})"\s*:\s*(?:"((?:[^"\\\n]|\\.)*)"|(-?\d[\d.]{0,30})(?![\w.]))')


def answer(reply: str, keys: Sequence[str]) -> str | None:
    """The value of the first of `keys` that the last object has which has any; else a reply of one word; None: neither.

    Keys are compared without case, blanks and underscores. A list of texts is joined with dots, as molecules are.
    """
    text = without_thoughts(reply)
    if text is None:
        return None
    text, wanted = text[-WINDOW:], [normal(key) for key in keys]
    found = [value for one in objects(text) if (value := chosen(one, wanted)) is not None]
    found = found or [value for one in pairs(text) if (value := chosen(one, wanted)) is not None]
    if found:
        return found[-1].strip() or None
    word = text.strip().strip("`").strip()
    return word if word and not re.search(r'[\s{}"]', word) else None


def objects(text: str) -> list[dict[str, Any]]:
    """All JSON objects that stand in the text, those inside of others apart."""
    found, at = [], text.find("{")
    while at >= 0:
        try:
            one, end = DECODER.raw_decode(text, at)
            found.append(one)
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("{", end)
    return found


def pairs(text: str) -> list[dict[str, Any]]:
    """Every `"key": value` as an object of its own; a backslash stays one unless it is doubled."""
    return [{m[1]: m[3] if m[2] is None else m[2].replace("\\\\", "\\")} for m in PAIR.finditer(text)]


def chosen(one: dict[str, Any], wanted: Sequence[str]) -> str | None:
    """The value of the first key that is there, as text; None when there is none, or one that is no answer."""
    named = {normal(key): value for key, value in one.items()}
    value = next((named[key] for key in wanted if key in named), None)
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return ".".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return unescaped(str(value))


def unescaped(text: str) -> str:
    r"""Control characters are again the backslash and the letter that they came from: in a molecule `\n` is a bond and an atom."""
    return text.strip().translate({8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"})


def normal(key: str) -> str:
    """Without case, blanks and underscores."""
    return re.sub(r"[\s_]+", "", key).lower()
