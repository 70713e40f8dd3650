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
SIZES = {False: (100_000, 10_000), True: (500, 100)}  # rows, items; small or not


def measured(place: Place) -> dict[str, Any]:
    """One process of its own, on one thread."""
    rows, items = SIZES[place.small]
    log, data, result = (place.root / f"contamination.{kind}" for kind in ("txt", "jsonl", "json"))
    env = {**environment(place.home), "OMP_NUM_THREADS": "1"}
    well(spend([sys.executable, str(WORK), "make", str(rows), str(items), str(data)], env=env, log=log), log)
    spent = well(spend([sys.executable, str(WORK), "find", str(data), str(result)], env=env, log=log), log)
    found = {**json.loads(result.read_text()), "wall": spent.wall, "CPU": spent.cpu, "MB": spent.memory}
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
    return float(place.once(measured)["found"])


@figure("clean rows flagged", "%", "<= 1")
def flagged(place: Place) -> float:
    """The other half: other items of the same templates, edited likewise; a tenth of them differ in one number or fact."""
    return float(place.once(measured)["flagged"])
