"""ChemCoTBench, understanding molecules: counts of groups and rings, the Murcko scaffold, yes or no.

A count is right or wrong, a scaffold is the wanted molecule or not: the mean of all is one accuracy. What the benchmark itself
reports of them is `summary`. Gold: {"task": .., "gold": ..}.
"""

from __future__ import annotations

import json
import re
from statistics import fmean
from typing import Any

from ._answers import answer
from ._molecules import canonical, molecule, same, similarity

READS = (
    'the last "output" (or "answer", or the task\'s own key) of a JSON object: a count, a SMILES, yes or '
    'no, e.g. `{"output": "2"}`'
)

KEYS = {
    "fg_count": ("count", "output", "answer"),
    "ring_count": ("count", "output", "answer"),
    "Murcko_scaffold": ("Output Scaffold", "output", "answer"),
    "ring_system_scaffold": ("output", "answer"),
    "equivalence": ("output", "answer"),
}
COUNTS = ("fg_count", "ring_count")
WORST = 20  # an error of a count beyond, and one that cannot be read


def judge(gold: str, reply: str) -> dict[str, Any]:
    """The verdict, with what the summary needs."""
    wanted = json.loads(gold)
    task, right = wanted["task"], str(wanted["gold"])
    found = answer(reply, KEYS[task])
    if task == "Murcko_scaffold":
        return scaffold(task, right, found)
    if task in COUNTS:
        number = count(found)
        error = WORST if number is None else min(WORST, abs(number - int(right)))
        parsed = None if number is None else str(number)
        return {
            "parsed": parsed,
            "value": float(error == 0 and number is not None),
            "task": task,
            "error_of_count": error,
        }
    said = (found or "").strip(" .").lower()
    parsed = said if said in ("yes", "no") else None
    return {"parsed": parsed, "value": float(parsed == right.lower()), "task": task}


def scaffold(task: str, right: str, found: str | None) -> dict[str, Any]:
    """Whether it is the wanted scaffold, and how near it is."""
    wanted, given = molecule(right), molecule(found or "")
    if wanted is None:
        raise ValueError(f"the wanted scaffold is no molecule: {right[:80]}")
    if given is None:
        return {"parsed": None, "value": 0.0, "task": task, "tanimoto": 0.0}
    facts = {"task": task, "tanimoto": similarity(given, wanted)}
    return {"parsed": canonical(given), "value": float(same(given, wanted)), **facts}


def count(found: str | None) -> int | None:
    """A whole number, also written as 3.0; None: none, or one of more than six digits."""
    match = re.fullmatch(r"([-+]?\d{1,6})(?:\.0+)?", (found or "").strip())
    return int(match[1]) if match else None


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Metrics over all items of a task.

    `mae_*`: mean absolute error of counts, an error being at most 20, and 20 where the count cannot be read;
    `murcko_tanimoto`: mean similarity of scaffolds, 0 to 1, 0 where there is none.
    """
    told = {}
    for task in COUNTS:
        errors = [row.get("error_of_count", WORST) for row in rows if row.get("task") == task]
        if errors:
            told[f"mae_{task}"] = fmean(errors)
    near = [row.get("tanimoto", 0.0) for row in rows if row.get("task") == "Murcko_scaffold"]
    return {**told, **({"murcko_tanimoto": fmean(near)} if near else {})}
