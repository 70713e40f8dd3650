"""What passes between the sandboxed reader of raw data and those who ask it: JSON of bounded size and depth."""

from __future__ import annotations

import json
from typing import Any

import orjson

from tuneloop.core.untrusted import DEEPEST, depth_of

LONGEST_LINE = 64 << 20
NEWLINE = b"\x0b"  # in the text of a line for the end of one: no JSON holds it


def dump_row(row: Any) -> bytes | None:
    """A row as JSON, what JSON has not as text; None where it is too large or too deep to be handed on."""
    try:
        text = orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS, default=str)
    except (TypeError, RecursionError):  # half a character, a number of more than 64 bits, or nested deeply
        if depth_of(row) > DEEPEST:
            return None
        text = json.dumps(row, default=str).encode()
    deep = text.count(b"{") + text.count(b"[") > DEEPEST and depth_of(row) > DEEPEST
    return None if deep or len(text) > LONGEST_LINE - 100 else text


def load(text: bytes) -> Any:
    """The value of a line. Raises ValueError for what is no JSON, or nested too deeply."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text)
        except RecursionError as e:
            raise ValueError("nested too deeply") from e
    if text.count(b"{") + text.count(b"[") > DEEPEST and depth_of(value) > DEEPEST:
        raise ValueError("nested too deeply")
    return value
