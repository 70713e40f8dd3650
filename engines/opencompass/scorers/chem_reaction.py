"""ChemCoTBench, reactions: products, reactants, conditions and the next step are compounds, a mechanism is a letter.

Compounds are compared as compounds, however they are written. The public set wrote the reactants of some items without the
dots between them; such a text is read in every way in which all of its parts are molecules in their canonical writing.
Gold: {"task", "gold"}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from statistics import fmean
from typing import Any

from Levenshtein import distance

from ._answers import answer
from ._molecules import LONGEST, canonical, molecule, same, similarities

READS = (
    'the last "output" (or "answer", or the task\'s own key) of a JSON object: compounds as SMILES, of a '
    'mechanism a letter, e.g. `{"output": "CCO"}`'
)

KEYS = {
    "fs": ("Major Product", "output", "answer"),
    "retro": ("Reactants", "output", "answer"),
    "rcr": ("SMILES", "condition", "output", "answer"),
    "nepp": ("pred_smi", "output", "answer"),
    "mechsel": ("choice", "output", "answer"),
}
NEAR = ("morgan", "maccs", "rdk")
MOST_PARTS = 4
LETTER = re.compile(r"\(?([A-Za-z])\)?\s*(?:[.:)|].*)?", re.DOTALL)


def judge(gold: str, reply: str) -> dict[str, Any]:
    """The verdict, with what the summary needs. Raises ValueError where the item itself cannot be read."""
    wanted = json.loads(gold)
    task, right = wanted["task"], wanted["gold"]
    found = answer(reply, KEYS[task])
    if task == "mechsel":
        match = LETTER.fullmatch((found or "").strip())
        letter = match[1].upper() if match else None
        return {"parsed": letter, "value": float(letter == right.strip().upper()), "task": task}
    return compounds(task, right, found)


def compounds(task: str, right: str, found: str | None) -> dict[str, Any]:
    """Whether these are the wanted compounds, and how near they are."""
    wanted = readings(right)
    if not wanted:
        raise ValueError(f"the wanted compounds are no molecules: {right[:80]}")
    given = molecule(found or "")
    if given is None:
        return {"parsed": None, "value": 0.0, "task": task, "steps": len(wanted[0]), **dict.fromkeys(NEAR, 0.0)}
    of_all = [molecule(one) for one in wanted]
    hit = next((one for one in of_all if same(given, one)), None)
    nearest = of_all[0] if hit is None else hit
    written = canonical(given)
    steps = min(LONGEST, distance(written, canonical(nearest)))
    near = (
        dict.fromkeys(NEAR, 1.0) if hit is not None else similarities(given, nearest)
    )  # an atom alone has no paths to compare
    return {"parsed": written, "value": float(hit is not None), "task": task, "steps": steps, **near}


@lru_cache(maxsize=1024)
def readings(text: str) -> list[str]:
    """The ways to read a text of compounds: as it is where it is a molecule, and with the fewest dots that may be missing."""
    whole = [text] if molecule(text) is not None else []
    for most in range(2, MOST_PARTS + 1 if "." not in text else 0):
        if found := [".".join(parts) for parts in split(text, most)]:
            return [*whole, *found]
    return whole


def split(text: str, parts: int) -> Iterator[list[str]]:
    """Every way to cut a text into so many molecules in their canonical writing."""
    if parts == 1:
        if written(text):
            yield [text]
        return
    for at in range(1, len(text)):
        if written(text[:at]):
            for rest in split(text[at:], parts - 1):
                yield [text[:at], *rest]


@lru_cache(maxsize=65536)
def written(text: str) -> bool:
    """Whether it is a molecule in its canonical writing; methane and ethane are no reactants."""
    balanced = text.count("(") == text.count(")") and text.count("[") == text.count("]")
    if text in ("C", "CC") or not balanced or text[0] in "()=#-+]/\\@%0123456789":
        return False
    found = molecule(text)
    return found is not None and plain(canonical(found)) == plain(text)


def plain(text: str) -> str:
    """Without the brackets and hydrogens of common atoms, which releases of RDKit write differently."""
    return re.sub(r"\[([BCNOPSbcnops])H?\d?\]", r"\1", text)


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Metrics over the items that ask for compounds.

    `validity`: percent of replies that are molecules; `*_similarity`: mean, 0 to 1, 0 where there is no molecule;
    `levenshtein`: mean, in characters of canonical writings, the wanted one's whole length where there is no molecule.
    """
    asked = [row for row in rows if row.get("task") != "mechsel"]
    if not asked:
        return {}
    near = {f"{name}_similarity": fmean(row.get(name, 0.0) for row in asked) for name in NEAR}
    return {
        "validity": 100 * fmean(row["parsed"] is not None for row in asked),
        **near,
        "levenshtein": fmean(row.get("steps", LONGEST) for row in asked),
    }
