"""PI4PC of PANORAMA: which one of five paragraphs of an older patent is cited against a claim.

The last `"answer":` of a JSON object counts: a whole number or a text of digits. Gold is JSON: `{"gold": [9], "silver": [66]}`.
"""

from __future__ import annotations

import json
from typing import Any

from ._replies import json_value, percent

READS = 'the last "answer" of a JSON object: one whole number, e.g. `{"answer": 9}`'


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 for a gold paragraph. `custom`: 1 for a gold one, half for a silver one."""
    wanted = json.loads(gold)
    named = number(json_value(reply, "answer"))
    right, silver = named in wanted["gold"], named in wanted["silver"]
    return {
        "parsed": None if named is None else str(named),
        "value": float(right),
        "custom": 1.0 if right else 0.5 * silver,
    }


def number(value: Any) -> int | None:
    """A paragraph's number from a JSON value."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18 else None


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Percent over all items: custom_score, and gold_or_silver (either was named). An unreadable reply gives nothing."""
    custom = [row.get("custom", 0.0) for row in rows]
    return {"custom_score": percent(custom), "gold_or_silver": percent(float(one > 0) for one in custom)}
