r"""The whole number from 0 to 999 that a contest problem asks for: in the last box, else after the last "answer is"."""

from __future__ import annotations

import re
from typing import Any

from ..scoring import boxed, plain_number, without_thoughts

STATED = re.compile(
    r"\banswer\s*(?:is|:|=)[\s:*$\\(]{0,10}(?:(?:text|mathbf)\{)?(\d{1,3})(?![\d,]*\d)(?!\.\d)", re.IGNORECASE
)


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 when the number is the gold one; what is no whole number from 0 to 999 is no answer."""
    found = stated_integer(reply)
    return {"parsed": found, "value": float(found is not None and found == str(int(gold)))}


def stated_integer(reply: str) -> str | None:
    """The number that counts, without leading zeros; None without one. A box that holds no such number is not passed over."""
    text = without_thoughts(reply)
    if text is None:
        return None
    inside = boxed(text)
    if inside is not None:
        return in_range(
            plain_number(inside.rpartition("=")[2].removesuffix("^\\circ").removesuffix("^{\\circ}").strip())
        )
    stated = [match[1] for match in STATED.finditer(text)]
    return in_range(plain_number(stated[-1])) if stated else None


def in_range(value: str | None) -> str | None:
    """The number, when it is a whole one from 0 to 999."""
    return value if value is not None and re.fullmatch(r"\d{1,3}", value) else None
