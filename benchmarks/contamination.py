"""The contamination guard: 100,000 rows against 10,000 items, and how much of what is planted it finds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from figures import figure
from place import Place
from processes import environment, spend, well

WORK = Path(__file__).with_name("contamination_work.py")
FAMILIES = (
    "case", "spacing", "punctuation", "markup", "look-alike letters", "padding", "reordered sentences", "a sentence cut"
)  # fmt: skip
SIZES = {False: (100_000, 10_000), True: (500, 100)}  # rows, items; small or not


def measured(place: Place) -> dict[str, Any]:
    """One process of its own, on one thread."""
    rows, items = SIZES[place.small]
    log, data, result = (place.root / f"contamination.{kind}" for kind in ("txt", "jsonl", "json"))
    env = {**environment(place.home), "OMP_NUM_THREADS": "1"}
    well(spend([sys.executable, str(WORK), "make", str(rows), str(items), str(data)], env=env, log=log), log)
    find = [sys.executable, str(WORK), "find", str(data)]
    spent = well(spend([*find, str(data), str(result)], env=env, log=log), log)
    found = {**json.loads(result.read_text()), "wall": spent.wall, "CPU": spent.cpu, "MB": spent.memory}
    well(spend([*find, str(data.with_suffix(".families")), str(result)], env=env, log=log), log)
    found |= json.loads(result.read_text())
    place.note("contamination", {**found, "rows": rows, "items": items, "load": os.getloadavg()[0]})
    return found


@figure("overlap of 100k rows with 10k items", "s", "<= 60")
def seconds(place: Place) -> float:
    """Wall time of a process that reads the items, then the rows as they come."""
    return float(place.once(measured)["wall"])


@figure("overlap of 100k rows with 10k items, memory", "MB", "<= 1000")
def memory(place: Place) -> float:
    """Of that process, resident at most."""
    return float(place.once(measured)["MB"])


@figure("planted overlaps found", "%", ">= 99")
def found(place: Place) -> float:
    """Half of the rows hold an item that was lightly edited."""
    return float(place.once(measured)["planted"])


@figure("clean rows flagged", "%", "<= 0.1")
def flagged(place: Place) -> float:
    """The other half: other items of the same templates, edited likewise; a tenth of them differ in one number or fact."""
    return float(place.once(measured)["clean"])


@figure("twins flagged", "%", "<= 0.1")
def twins(place: Place) -> float:
    """Items of which one number, name or fact was changed."""
    return float(place.once(measured)["twins"])


@figure("mechanical disguises found, the worst family", "%", ">= 99")
def worst_family(place: Place) -> float:
    """Of eight: case, spacing, punctuation, markup, look-alike letters, padding, reordered sentences, a sentence cut."""
    return min(float(place.once(measured)[family]) for family in FAMILIES)


@figure("changed arithmetic found", "%", ">= 0")
def arithmetic(place: Place) -> float:
    """Numbers written as sums: measured, not aimed at."""
    return float(place.once(measured)["changed arithmetic"])


@figure("paraphrases found", "%", ">= 0")
def paraphrases(place: Place) -> float:
    """Other names, another word, numbers in words: measured, not aimed at."""
    return float(place.once(measured)["paraphrase"])
