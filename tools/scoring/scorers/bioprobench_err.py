"""BioProBench ERR: is a step of a protocol right? Gold is True (it is right) or False (there is an error in it).

Between the last [ANSWER_START] and [ANSWER_END]: True or False and nothing else.
"""

from __future__ import annotations

from typing import Any

from ._replies import precision_recall_f1, tagged

READS = "True or False and nothing else between the last pair, e.g. `[ANSWER_START]True[ANSWER_END]`"

WORDS = {"true": "True", "false": "False"}


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 for the right word."""
    named = WORDS.get((tagged(reply) or "").lower().rstrip("."))
    return {"parsed": named, "value": float(named == gold), "gold": gold}


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Precision, recall and F1 of finding errors, percent, over all items.

    An unreadable reply counts as worst: an error is missed by it, a right step is called wrong.
    """
    pairs = [(row.get("gold") == "False", row["parsed"]) for row in rows]
    hits = sum(error and named == "False" for error, named in pairs)
    wrong = sum(not error and named != "True" for error, named in pairs)
    missed = sum(error and named != "False" for error, named in pairs)
    precision, recall, f1 = precision_recall_f1(hits, wrong, missed)
    return {"precision": precision, "recall": recall, "f1": f1}
