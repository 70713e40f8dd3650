r"""The whole number from 0 to 999 that a contest problem asks for: in the last box, else after the last "answer is"."""

from __future__ import annotations

import re
from typing import Any

from ..answer_matching import box, normal, plain_number, without_thoughts

READS = (
    r"a whole number from 0 to 999 in the last box, e.g. `\boxed{204}`; without a box the one after the "
    r"last 'answer is' or 'answer:'"
)

STATED = re.compile(
    r"\banswer[\s*]{0,4}(?:is|:|=)[\s:*$\\(]{0,10}(?:(?:text|textbf|mathrm|mathbf)\{)?(\d{1,3})(?![\d,]*\d)(?!\.\d)",
    re.IGNORECASE,
)

LONGEST = 200  # characters of a box that can be a number and its unit
UNIT = re.compile(r"(?:\^\{?\\circ\}?|°|\\(?:text|mathrm|mbox)\s*\{[a-z .]+\}(?:\^\{?\d\}?)?|\\q?quad|\s)+\Z")


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 when the number is the gold one; what is no whole number from 0 to 999 is no answer."""
    found = stated_integer(reply)
    return {"parsed": found, "value": float(found is not None and found == str(int(gold)))}


def stated_integer(reply: str) -> str | None:
    """The number that counts, without leading zeros; None without one. A box that holds no such number is not passed over."""
    text = without_thoughts(reply)
    if text is None:
        return None
    inside = box(text)
    if inside is not None:
        value = inside.rpartition("=")[2]
        return in_range(plain_number(normal(UNIT.sub("", value)))) if len(value) < LONGEST else None
    stated = [match[1] for match in STATED.finditer(text)]
    return in_range(plain_number(stated[-1])) if stated else None


def in_range(value: str | None) -> str | None:
    """The number, when it is a whole one from 0 to 999."""
    return value if value is not None and re.fullmatch(r"\d{1,3}", value) else None
