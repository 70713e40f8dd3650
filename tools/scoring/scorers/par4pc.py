"""PAR4PC of PANORAMA: which of eight patents, A to H, were cited against a claim.

The last `"answer":` of a JSON object counts: a letter, letters with commas between them, or a list of letters. A letter in
prose is no answer. Gold is JSON: `{"gold": ["A"], "silver": ["C"]}`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ._replies import json_value, mean, percent, precision_recall_f1

READS = (
    'the last "answer" of a JSON object: letters A to H with commas between them or in a list, e.g. '
    '`{"answer": "A,C"}`; exactly the cited ones are right'
)

OPTIONS = "ABCDEFGH"


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 when exactly the gold patents are named.

    `custom`: 2 for a gold one, -1 for one missed, -1 for one that is neither gold nor silver, never below 0, as a share of
    what all gold ones give.
    """
    wanted = json.loads(gold)
    right, silver = set(wanted["gold"]), set(wanted["silver"])
    named = letters(json_value(reply, "answer"))
    found = named or set()
    hits, wrong, missed = len(found & right), len(found - right - silver), len(right - found)
    return {
        "parsed": None if named is None else ",".join(sorted(named)),
        "value": float(named == right),
        "custom": max(0.0, (2 * hits - wrong - missed) / (2 * len(right))),
        "gold": sorted(right),
    }


def letters(value: Any) -> set[str] | None:
    """The letters of a JSON value; None when it is anything else."""
    parts = re.split(r"\s*,\s*", value.strip()[:100]) if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        return None
    found = {part.strip().upper() for part in parts}
    return found if all(len(letter) == 1 and letter in OPTIONS for letter in found) else None


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Percent over all items; an unreadable reply names nothing.

    custom_score; f1_micro (counts of all items pooled) with its precision and recall; f1_macro (mean over the eight letters);
    f1_items (mean over items, which the authors of PANORAMA call macro F1).
    """
    pairs = [(set(row["gold"]), set((row["parsed"] or "").split(",")) - {""}) for row in rows if "gold" in row]
    precision, recall, f1_micro = scores(pairs)
    single = [[(gold & {letter}, found & {letter}) for gold, found in pairs] for letter in OPTIONS]
    return {
        "custom_score": percent(row.get("custom", 0.0) for row in rows),
        "precision_micro": precision,
        "recall_micro": recall,
        "f1_micro": f1_micro,
        "f1_macro": mean(scores(one)[2] for one in single),
        "f1_items": sum(scores([pair])[2] for pair in pairs) / len(rows) if rows else 0.0,
    }


def scores(pairs: list[tuple[set[str], set[str]]]) -> tuple[float, float, float]:
    """Precision, recall and F1 of pooled counts."""
    hits = sum(len(gold & found) for gold, found in pairs)
    wrong = sum(len(found - gold) for gold, found in pairs)
    missed = sum(len(gold - found) for gold, found in pairs)
    return precision_recall_f1(hits, wrong, missed)
