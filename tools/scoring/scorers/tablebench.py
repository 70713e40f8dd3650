"""TableBench's questions that are answered in words or numbers; gold is JSON: `{"answer": "5, -3.2%", "metric": "em"}`.

The rest of the last line "Final Answer: ..." counts: one answer, or several with commas between them, in the order asked.

em       every answer as the gold one: numbers by value, where sign, decimals and percent count and more decimals than
         the gold number has are rounded; texts without regard to case, blanks, quotes and a full stop at the end
em_10    the same, but a gold answer with one number in it is met by an answer with one number within 10 % of it
rouge_l  ROUGE-L of the whole line
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from ._overlap import rouge_l, words
from ._replies import announced, percent

READS = (
    "the rest of the last line that begins with 'Final Answer:', several answers with commas between "
    "them, in the order asked, e.g. `Final Answer: 5`"
)

DIGITS = r"[-+]?[$€£¥]?(?:\d{1,3}(?:,\d{3}){1,12}(?!\d)|\d{1,40})?(?:\.\d{1,40})?(?:[eE][-+]?\d{1,2})?%?"
INSIDE = re.compile(rf"(?<![\w.,])(?=[-+]?[$€£¥]?\.?\d){DIGITS}(?![\w%])", re.ASCII)
BETWEEN = re.compile(r",(?=\s)|(?<!\d),|,(?!\d{3}(?!\d))")
TOLERANCE, LONGEST, EXACT = Decimal("0.1"), 20_000, Context(prec=400)
NAMES = {"em": "exact_match", "em_10": "exact_match_10", "rouge_l": "rouge_l"}


def judge(gold: str, reply: str) -> dict[str, Any]:
    """By the metric of the item's own subtype; `elements`: the share of single answers that are right."""
    wanted = json.loads(gold)
    line = announced(reply)
    if line is None:
        return {"parsed": None, "value": 0.0, "metric": wanted["metric"], "elements": 0.0}
    line = line[:LONGEST]
    if wanted["metric"] == "rouge_l":
        share = value = rouge_l(words(wanted["answer"]), words(line))
    else:
        share = agreement(wanted["answer"], line, close if wanted["metric"] == "em_10" else equal)
        value = float(share == 1)
    return {"parsed": line, "value": value, "metric": wanted["metric"], "elements": share}


def agreement(gold: str, line: str, same: Callable[[str, str], bool]) -> float:
    """Share of single answers that are the same, place by place; an answer too many counts as a wrong one."""
    wanted, given = answers(gold), answers(line)
    return sum(map(same, wanted, given)) / max(len(wanted), len(given))


def answers(line: str) -> list[str]:
    """What stands between commas that are no thousands commas, without quotes around it and a full stop after it."""
    parts = BETWEEN.split(re.sub(r"(?<=\d)\s{1,9}%", "%", line.replace("−", "-")))
    return [" ".join(part.split()).rstrip(".").strip("\"'“”‘’ ").casefold() for part in parts]


def equal(gold: str, given: str) -> bool:
    """The same number, or else the same text."""
    wanted, found = (number(text) if INSIDE.fullmatch(text) else None for text in (gold, given))
    if wanted is None or found is None:
        return gold == given
    exponent = wanted.as_tuple().exponent
    places = Decimal((0, (1,), min(0, int(exponent))))
    return found.quantize(places, ROUND_HALF_UP, EXACT) == wanted


def close(gold: str, given: str) -> bool:
    """The one number in it is within 10 % of the one in the gold answer; without exactly one there, `equal`."""
    wanted, found = INSIDE.findall(gold), INSIDE.findall(given)
    if len(wanted) != 1:
        return equal(gold, given)
    if len(found) != 1:
        return False
    right = number(wanted[0])
    return abs(number(found[0]) - right) <= TOLERANCE * abs(right)


def number(text: str) -> Decimal:
    """A number as it is written: 5% is 0.05, and keeps its decimals."""
    plain = re.sub(r"[$€£¥,%]", "", text)
    return Decimal(plain).scaleb(-2, EXACT) if text.endswith("%") else Decimal(plain)


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Percent: each metric over the items that it is for, where there are several; element_match, the share of single answers."""
    kinds = {kind: [row for row in rows if row.get("metric") == kind] for kind in NAMES}
    found = {NAMES[kind]: percent(row["value"] for row in of) for kind, of in kinds.items() if 0 < len(of) < len(rows)}
    exact = kinds["em"] + kinds["em_10"]
    return found | ({"element_match": percent(row["elements"] for row in exact)} if exact else {})
