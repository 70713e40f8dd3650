"""BioProBench PQA: a question on a laboratory protocol with several choices, and how sure the answer is.

Between the last [ANSWER_START] and [ANSWER_END]: the choice's text or its letter, then `&` and a confidence from 0 to 100.
Gold is JSON: `{"answer": "0.3", "choices": ["0.2", "0.3"]}`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ._replies import mean, tagged

READS = (
    "the choice's text or letter, then & and a confidence from 0 to 100, between the last pair, e.g. "
    "`[ANSWER_START]0.3 & 80%[ANSWER_END]`"
)

CONFIDENCE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s{0,9}%?", re.ASCII)
LETTER = re.compile(r"\(?([A-Za-z])(?:[).:]{1,2}(?:\s+(.*))?)?", re.DOTALL)


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 for the right choice. `brier`: (confidence - right)², 1 where either cannot be read."""
    wanted = json.loads(gold)
    content = tagged(reply) or ""
    before, sign, after = content.rpartition("&")
    sure = CONFIDENCE.fullmatch(after.strip()) if sign else None
    named = (chosen(before, wanted["choices"]) if sign else None) or chosen(content, wanted["choices"])
    right = named == wanted["answer"]
    confidence = float(sure[1]) / 100 if sure and float(sure[1]) <= 100 else None
    readable = named is not None and confidence is not None
    return {
        "parsed": named,
        "value": float(right),
        "brier": (confidence - right) ** 2 if readable and confidence is not None else 1.0,
    }


def readable(reply: str) -> bool:
    """Whether something is named with a confidence, whatever the choices are."""
    before, _, after = (tagged(reply) or "").rpartition("&")
    return bool(before.strip()) and CONFIDENCE.fullmatch(after.strip()) is not None


def chosen(text: str, choices: list[str]) -> str | None:
    """The choice that is meant: its text, its letter, or its letter and then its text; None for anything else."""
    text = text.strip()
    if text in choices:
        return text
    same = [choice for choice in choices if plain(choice) == plain(text)]
    if len(same) == 1:
        return same[0]
    match = LETTER.fullmatch(text)
    place = ord(match[1].upper()) - ord("A") if match else len(choices)
    if match is None or place >= len(choices):
        return None
    return choices[place] if match[2] is None or plain(match[2]) == plain(choices[place]) else None


def plain(text: str) -> str:
    """Without regard to case, blanks and quotes around it."""
    return " ".join(text.split()).strip("\"'“”‘’").casefold()


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """brier_score, 0 to 1, the less the better: mean over all items; 1 for an item that cannot be read."""
    return {"brier_score": mean(row.get("brier", 1.0) for row in rows)}
