"""Means, and precision, recall and F1 from counts, in percent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ..answer_matching import without_thoughts

# Find the answer in a reply: after the thoughts, between tags, on the last line that announces it, or as JSON's last value.

START, END = "[ANSWER_START]", "[ANSWER_END]"
ANNOUNCED = re.compile(r"^[^\S\n]*(?:\*{1,3}|#{1,6}[^\S\n]?|>[^\S\n]?)?Final Answer(?:\*{1,3})?[^\S\n]*:", re.I | re.M)
LONGEST_VALUE = 4_000
NOTHING = object()


def tagged(reply: str) -> str | None:
    """What stands between the last pair of [ANSWER_START] and [ANSWER_END], trimmed; None without a pair, or when empty."""
    text = without_thoughts(reply) or ""
    end = text.rfind(END)
    start = text.rfind(START, 0, end) if end >= 0 else -1
    return text[start + len(START) : end].strip() or None if start >= 0 else None


def announced(reply: str) -> str | None:
    """The rest of the last line that begins with "Final Answer:", without Markdown's stars; None without one, or when empty."""
    text = without_thoughts(reply) or ""
    found = [match.end() for match in ANNOUNCED.finditer(text)]
    if not found:
        return None
    line = text[found[-1] :].partition("\n")[0]
    return line.strip().strip("*`").strip() or None


def json_value(reply: str, key: str) -> Any:
    """The value of the last `"key":` that stands in an object; NOTHING without one, or when its value is not whole."""
    text = without_thoughts(reply) or ""
    found = [match.end() for match in re.finditer(rf'[{{,]\s{{0,1000}}"{key}"\s{{0,1000}}:\s{{0,1000}}', text)]
    if not found:
        return NOTHING
    rest = text[found[-1] : found[-1] + LONGEST_VALUE]
    try:
        value, end = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        return NOTHING
    return value if rest[end:].lstrip()[:1] in (",", "}") else NOTHING


def mean(values: Iterable[float]) -> float:
    """0 without values."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def percent(values: Iterable[float]) -> float:
    """100 times the mean."""
    return 100 * mean(values)


def precision_recall_f1(hits: int, wrong: int, missed: int) -> tuple[float, float, float]:
    """In percent; 0 where a denominator is 0. `wrong`: found but not there; `missed`: there but not found."""
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    recall = hits / (hits + missed) if hits + missed else 0.0
    f1 = 2 * hits / (2 * hits + wrong + missed) if hits else 0.0
    return 100 * precision, 100 * recall, 100 * f1
