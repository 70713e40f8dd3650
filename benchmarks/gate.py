"""The data gate: how fast records are read and checked, counted in tokens, compared with each other and the benchmark."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import figure
from place import Place
from processes import environment, spend, well

WORK = Path(__file__).with_name("gate_work.py")
NAMES = ("Anna", "Tom", "Mia", "Paul", "Lena", "Omar", "Rosa", "Jack")
THINGS = ("apples", "books", "coins", "stones", "pencils", "stamps", "shells", "marbles")
PLACES = ("at the market", "in the shop", "from a neighbour", "on the way home", "at school")
ROWS, SMALL_ROWS = 100_000, 2_000
LARGE, SMALL_LARGE = 1 << 30, 8 << 20
TOKEN_ROWS, SMALL_TOKEN_ROWS = 20_000, 1_000


@dataclass(frozen=True)
class Part:
    """What one process said of its work, and its peak memory in MB."""

    said: dict[str, Any]
    memory: float


def rows(count: int) -> Iterator[dict[str, str]]:
    """Word problems with worked solutions."""
    rng = random.Random(7)
    for _ in range(count):
        name, thing = rng.choice(NAMES), rng.choice(THINGS)
        a, b, c = (rng.randint(2, 999) for _ in range(3))
        asked = f"{name} has {a} {thing}. {name} buys {b} more {thing} {rng.choice(PLACES)} and gives {c} to a friend."
        worked = f"First {a} and {b} make {a + b}.\nThen {a + b} - {c} = {a + b - c} are left.\n\\boxed{{{a + b - c}}}"
        yield {"instruction": f"{asked} How many {thing} does {name} have now?", "input": "", "output": worked}


def written(path: Path, count: int) -> Path:
    """A file of so many rows."""
    with path.open("w") as f:
        f.write("[" + ",\n".join(map(json.dumps, rows(count))) + "]")
    return path


def worked(place: Place, what: str, data: Path) -> Part:
    """One process of its own, on one thread."""
    log, result = place.root / f"gate-{what}.txt", place.root / f"gate-{what}.json"
    argv = [sys.executable, str(WORK), what, str(data), str(place.tiny / "tokenizer.json"), str(result)]
    env = {**environment(place.home), "RAYON_NUM_THREADS": "1"}
    spent = well(spend(argv, env=env, log=log), log)
    said = json.loads(result.read_text())
    place.note(f"data gate, {what}", {**said, "CPU": spent.cpu, "wall": spent.wall, "MB": spent.memory})
    return Part(said, spent.memory)


def records(place: Place) -> Path:
    """The file that most figures read."""
    return written(place.root / "gate.json", SMALL_ROWS if place.small else ROWS)


def compared(place: Place) -> Part:
    """Overlap with a benchmark of 1,000 items, and near copies."""
    return worked(place, "compare", place.once(records))


@figure("data gate, parse and fields", "MB/CPU s", ">= 50")
def reading(place: Place) -> float:
    """Short records, the hard case; the best of three."""
    return float(worked(place, "read", place.once(records)).said["MB/CPU s"])


@figure("data gate, memory at 1 GB", "MB", "<= 500")
def memory(place: Place) -> float:
    """The gate as a run has it, with a limit of 2,000 rows; resident at most."""
    path = place.root / "gate-large.json"
    size = SMALL_LARGE if place.small else LARGE
    one = (",\n".join(map(json.dumps, rows(2000))) + ",\n").encode()
    with path.open("wb") as f:
        f.write(b"[")
        for _ in range(size // len(one)):
            f.write(one)
        f.write(json.dumps(next(rows(1))).encode() + b"]")
    try:
        return worked(place, "large", path).memory
    finally:
        path.unlink()


@figure("data gate with tokens, of the tokenizer's own batch speed", "ratio", ">= 0.7")
def tokens(place: Place) -> float:
    """All of the gate against `encode_batch` of the same texts, wall time, one tokenizer thread; the least of three each."""
    data = written(place.root / "gate-tokens.json", SMALL_TOKEN_ROWS if place.small else TOKEN_ROWS)
    return float(worked(place, "tokens", data).said["ratio"])


@figure("overlap and near-duplicates of 100k rows", "CPU s", "<= 60")
def comparing(place: Place) -> float:
    """Against 1,000 items, and each other."""
    return float(place.once(compared).said["CPU s"])


@figure("overlap and near-duplicates of 100k rows, memory", "MB", "<= 1000")
def comparing_memory(place: Place) -> float:
    """Of that process, resident at most."""
    return place.once(compared).memory
