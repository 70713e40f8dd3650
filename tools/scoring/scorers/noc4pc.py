"""NOC4PC of PANORAMA: is a claim allowed, or rejected as not new (102) or as obvious (103)?

The last `"code":` of a JSON object counts: "ALLOW", "102" or "103", as a text or a number. Gold is one of the three.
"""

from __future__ import annotations

from typing import Any

from ._replies import json_value, mean, precision_recall_f1

READS = 'the last "code" of a JSON object: ALLOW, 102 or 103, e.g. `{"code": "102"}`'

CODES = ("102", "103", "ALLOW")


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 for the right code."""
    value = json_value(reply, "code")
    named = str(value).strip().upper() if isinstance(value, str | int) else None
    code = named if named in CODES else None
    return {"parsed": code, "value": float(code == gold), "gold": gold}


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """f1_macro, percent: the mean of the three codes' F1 over all items; an unreadable reply misses its item's code."""
    return {"f1_macro": mean(f1(rows, code) for code in CODES)}


def f1(rows: list[dict[str, Any]], code: str) -> float:
    """F1 of one code, percent."""
    pairs = [(row.get("gold") == code, row["parsed"] == code) for row in rows]
    hits = sum(gold and found for gold, found in pairs)
    wrong = sum(found and not gold for gold, found in pairs)
    missed = sum(gold and not found for gold, found in pairs)
    return precision_recall_f1(hits, wrong, missed)[2]
