"""BioProBench ORD: put the steps of a protocol in order.

Between the last [ANSWER_START] and [ANSWER_END]: a list of the steps' numbers, counted from 0, each of them once.
Gold is JSON: `{"steps": [as they are shown], "order": [as they are right]}`.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

from ._replies import mean, tagged

READS = (
    "the list of all step numbers, from 0, each once, between the last pair, e.g. `[ANSWER_START][1, 0][ANSWER_END]`"
)

LIST = re.compile(r"\[\s*\d{1,6}(?:\s*,\s*\d{1,6})*\s*\]", re.ASCII)


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 for the right order; steps with the same text may be exchanged. `tau`: Kendall's, -1 for a list that is unreadable."""
    wanted = json.loads(gold)
    steps, order = wanted["steps"], wanted["order"]
    named = numbers(tagged(reply) or "", len(steps))
    if named is None:
        return {"parsed": None, "value": 0.0, "tau": -1.0}
    given = [steps[i] for i in named]
    return {"parsed": json.dumps(named), "value": float(given == order), "tau": kendall_tau(ranks(given, order))}


def readable(reply: str) -> bool:
    """Whether there is a list of as many numbers as it says, each once, however many steps there are."""
    text = tagged(reply) or ""
    return numbers(text, text.count(",") + 1) is not None


def numbers(text: str, count: int) -> list[int] | None:
    """The list, when it holds each number below `count` once."""
    found = [int(digits) for digits in re.findall(r"\d+", text)] if LIST.fullmatch(text) else []
    return found if found and sorted(found) == list(range(count)) else None


def ranks(given: list[str], order: list[str]) -> list[int]:
    """Where each given step belongs; of steps with the same text the first belongs first."""
    places: dict[str, list[int]] = {}
    for place in reversed(range(len(order))):
        places.setdefault(order[place], []).append(place)
    return [places[step].pop() for step in given]


def kendall_tau(found: list[int]) -> float:
    """Pairs in order less pairs out of order, as a share of all pairs; 1 where there is no pair."""
    signs = [1 if before < after else -1 for before, after in combinations(found, 2)]
    return mean(signs) if signs else 1.0


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """kendall_tau, -1 to 1: mean over all items; -1 for an item that cannot be read."""
    return {"kendall_tau": mean(row.get("tau", -1.0) for row in rows)}
