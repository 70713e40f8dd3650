"""`tuneloop data inspect` on a large JSON Lines file, beside `datasets` and pandas that find the same facts."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import figure
from place import Place
from processes import TUNELOOP, Spent, environment, spend, well

STOCK = Path(__file__).with_name("inspecting_stock.py")
LARGE, SMALL = 1 << 30, 4 << 20
TEXT = (
    "the a number of apples that remains after selling is therefore equal to sum product ratio each day week hour "
    "train speed distance river boat reaction yields carbon table column revenue profit interest claim compute then "
    "we obtain hence since because let us consider first second finally note total cost price per unit between "
    "among students"
)
TEXTS = 3000
PROCESSES = 2  # of ours: the second reads the second half


@dataclass(frozen=True)
class Sides:
    """The least of each side's runs; `memory` of ours counts its larger process twice."""

    ours: Spent
    stock: Spent


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Problems with worked solutions, a tenth of them empty; nested fields; 2 % copies.

    Solutions have 200 to 20,000 characters, as many of each order of magnitude: what models reason. A row has 4 KB.
    """
    rng, words = random.Random(3), TEXT.split()
    texts = [" ".join(rng.choices(words, k=round(35 * 100 ** rng.random()))) for _ in range(TEXTS)]
    old: list[dict[str, Any]] = []
    for i in range(count):
        if old and rng.random() < 0.02:
            yield rng.choice(old)
            continue
        a, b = rng.randint(2, 999), rng.randint(2, 999)
        worked = f"{rng.choice(texts)} {a} + {b} = {a + b}.\n\\boxed{{{a + b}}}" if rng.random() < 0.9 else ""
        meta = {
            "source": rng.choice(("aime", "amc", "omni")),
            "verified": rng.random() < 0.9,
            "tags": rng.choices(words, k=2),
        }
        row = {
            "id": f"row-{i:08d}",
            "problem": f"{rng.choice(texts)[:400]} {i} and {b}?",
            "solution": worked,
            "answer": str(a + b),
            "difficulty": round(rng.random() * 10, 2) if i % 7 else None,
            "year": rng.randint(1990, 2024),
            "meta": meta,
        }
        if len(old) < 2000:
            old.append(row)
        yield row


def written(place: Place) -> Path:
    """The file."""
    path, left = place.root / "inspected.jsonl", SMALL if place.small else LARGE
    with path.open("wb") as f:
        for row in rows(10**9):
            left -= f.write(json.dumps(row).encode() + b"\n")
            if left <= 0:
                return path
    return path


def inspected(place: Place) -> Sides:
    """Both sides in turns, each a process from its start; what they found must be the same."""
    path = place.once(written)
    place.note("inspected bytes", path.stat().st_size)
    ours, stock, loads = [], [], []
    for number in range(1 if place.small else 3):
        loads.append(os.getloadavg()[0])
        found, out = place.root / "inspected.ours.json", place.root / "inspected.stock.json"
        ours.append(run_ours(place, path, found))
        stock.append(run_stock(place, path, out, number))
        compare(json.loads(found.read_text()), json.loads(out.read_text()))
    each = {"ours": ours, "stock": stock}
    spent = {name: [vars(s) for s in side] for name, side in each.items()}
    place.note("inspection of a JSONL file", {**spent, "load": loads})
    path.unlink()
    return Sides(min(ours, key=lambda s: s.wall), min(stock, key=lambda s: s.wall))


def run_ours(place: Place, path: Path, out: Path) -> Spent:
    """The command as a user gives it."""
    out.unlink(missing_ok=True)
    return well(spend([*TUNELOOP, "data", "inspect", str(path), "--json"], env=environment(place.home), log=out), out)


def run_stock(place: Place, path: Path, out: Path, number: int) -> Spent:
    """A fresh cache each time: a second look at the same file would find it."""
    log, cache = place.root / "inspected.log", place.root / f"inspected-{number}"
    own = {
        name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"
    }  # Arrow parses with all cores
    env = {**own, "HF_HOME": str(cache), "HF_DATASETS_OFFLINE": "1"}
    python = str(place.engines["opencompass"].python)
    spent = well(spend([python, str(STOCK), str(path), str(cache / "rows"), str(out)], env=env, log=log), log)
    shutil.rmtree(cache)
    return spent


def compare(ours: dict[str, Any], stock: dict[str, Any]) -> None:
    """Raises RuntimeError where a fact differs; counts of different values may be estimates, 1.5 % off."""
    (part,) = ours["parts"]
    mine = {c["path"]: c for c in part["columns"]}
    pairs = [("rows", ours["rows"], stock["rows"]), ("duplicates", part["duplicates"], stock["duplicates"])]
    for name, theirs in stock["columns"].items():
        held = mine[name]
        pairs.append((f"{name} empty", held["empty"], theirs["empty"]))
        for key in {"low", "high"} & theirs.keys() - ({"low", "high"} if theirs["kinds"].keys() == {"bool"} else set()):
            pairs.append((f"{name} {key}", held[key], theirs[key]))
        for key in {"characters", "items"} & theirs.keys():
            pairs += [(f"{name} {at}", held[key][at], round(theirs[key][at])) for at in ("min", "p50", "max")]
        if abs(held["distinct"] - theirs["distinct"]) > (0 if held["exact"] else 0.015 * theirs["distinct"]):
            pairs.append((f"{name} distinct", held["distinct"], theirs["distinct"]))
    if wrong := [pair for pair in pairs if pair[1] != pair[2]]:
        raise RuntimeError(f"the sides differ (fact, ours, stock): {wrong}")


@figure("inspection of a JSONL file, datasets + pandas / ours", "x", ">= 5")
def faster(place: Place) -> float:
    """Wall seconds, least of three each."""
    sides = place.once(inspected)
    return sides.stock.wall / sides.ours.wall


@figure("inspection of a JSONL file, memory", "MB", "<= 1024")
def memory(place: Place) -> float:
    """Both processes of ours, at most."""
    return PROCESSES * place.once(inspected).ours.memory
