"""BioProBench GEN: write a protocol; measured by the words that it shares with the one that is known.

What stands between the last [ANSWER_START] and [ANSWER_END] counts. Gold is JSON: the steps in a list, or one text.
"""

from __future__ import annotations

import json
from typing import Any

from ._overlap import bleu, rouge_l, rouge_n, stemmed
from ._replies import percent, tagged

READS = (
    "what stands between the last pair, e.g. `[ANSWER_START]1. Mix.[ANSWER_END]`; scored by the words it "
    "shares with the known protocol"
)

METRICS = ("rouge_1", "rouge_2", "bleu")


def judge(gold: str, reply: str) -> dict[str, Any]:
    """ROUGE-L as a share; the other overlaps beside it."""
    known = json.loads(gold)
    reference = known if isinstance(known, str) else " ".join(known)
    text = tagged(reply)
    wanted, found = stemmed(reference), stemmed(text or "")
    return {
        "parsed": text,
        "value": rouge_l(wanted, found),
        "rouge_1": rouge_n(1, wanted, found),
        "rouge_2": rouge_n(2, wanted, found),
        "bleu": bleu(reference, text or ""),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """rouge_1, rouge_2 and bleu (of words and pairs of words): mean over all items, percent; 0 for an unreadable reply."""
    return {name: percent(row.get(name, 0.0) for row in rows) for name in METRICS}
