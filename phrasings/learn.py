"""Learns `agents/steering/likeness.npz` from the phrasings beside this file: `make phrasings`.

`KIND.txt` holds ways of saying one kind of wish, a line each; a new way is a new line. The kinds are those of
`agents/steering/filling.py`. Learnt anew after a change of a line, or of how words are tagged.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneloop.agents.steering.clause import tagged
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.likeness import LEARNT, SEVERAL, Likeness, Weights, features, frame
from tuneloop.agents.steering.plain import bare, plain
from tuneloop.tools.params.spoken import ADDED, SWITCHES, parameter_names, value_names

EXAMPLES = Path(__file__).parent
JOINTS = (", ", " and ", ", and ", "; ", " - ", " but ", ", then ", ". ", ", also ")
AFTER = 0.7  # how often an aside comes behind
MIXED = 0.3  # how many examples are mixed with another
SEEN = 3  # a feature is kept when so many examples have it
STEPS, RATE, HELD = 300, 6.0, 3e-5  # of the descent; HELD: weight decay
LARGEST = 127
Places = NDArray[np.int64]


def said_of() -> Known:
    """The run that the examples speak of."""
    return Known(
        sources=(
            "raw",
            "raw/textbook.jsonl",
            "raw/forum_posts.jsonl",
            "raw/web_scrape.jsonl",
            "extra",
            "extra/problems.json",
        ),
        parameters=parameter_names(None),
        values=value_names(),
        switches=SWITCHES,
        added=ADDED,
    )


def examples(folder: Path = EXAMPLES) -> dict[str, list[str]]:
    """Kind → what people say."""
    return {file.stem: file.read_text(encoding="utf-8").splitlines() for file in sorted(folder.glob("*.txt"))}


def framed(said: str, known: Known) -> str:
    """An example as the reader sees it."""
    text = plain(said)
    return frame(tagged(bare(text.rstrip("?")), known), asks=text.rstrip().endswith("?"))


def frames(given: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Kind and frame of every example."""
    known = said_of()
    return [(kind, framed(said, known)) for kind, lines in given.items() for said in lines if said]


def beside(given: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Examples with an aside, which mean the same, and two kinds in one message, which are `SEVERAL`."""
    chance = random.Random(0)
    single = [(kind, said) for kind, lines in given.items() if kind not in ("aside", "unclear") for said in lines]
    found: dict[str, list[str]] = {SEVERAL: []}
    for kind, said in single:
        aside = chance.choice(given["aside"])
        mixed = f"{said.rstrip('.!')}{chance.choice(JOINTS)}{aside}" if chance.random() < AFTER else f"{aside}, {said}"
        found.setdefault(kind, []).append(mixed)
        other, more = chance.choice(single)
        if other != kind and chance.random() < MIXED:
            found[SEVERAL].append(f"{said.rstrip('.!?')}{chance.choice(JOINTS)}{more}")
    return found


def digest(rows: Sequence[tuple[str, str]]) -> str:
    """Of what is learnt from."""
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def learn(given: Sequence[tuple[str, str]], more: Sequence[tuple[str, str]]) -> Likeness:
    """Softmax regression by full steps with momentum: the same weights every time."""
    rows = [*given, *more]
    parts = [list(features(text)) for _, text in rows]
    counts = Counter(name for groups in parts for group in groups for name in group)
    names = sorted(name for name, count in counts.items() if count >= SEEN)
    places = {name: i for i, name in enumerate(names)}
    cells = [
        (i, places[name], value)
        for i, groups in enumerate(parts)
        for group in groups
        for name, value in group.items()
        if name in places
    ]
    kinds = sorted({kind for kind, _ in rows})
    y = np.array([[kind == one for one in kinds] for kind, _ in rows], np.float32)
    weights, bias = descend(Cells(cells, (len(rows), len(names))), y)
    return Likeness(kinds, places, weights, bias, digest(given))


class Cells:
    """A matrix of few cells, by rows and by columns."""

    def __init__(self, cells: Sequence[tuple[int, int, float]], shape: tuple[int, int]) -> None:
        rows, columns, values = (np.array(part) for part in zip(*cells, strict=True))
        self.sides = [_sorted(rows, columns, values, shape[0]), _sorted(columns, rows, values, shape[1])]

    def times(self, other: Weights, *, turned: bool = False) -> Weights:
        """The product with it; `turned`: of the transposed matrix."""
        starts, filled, others, values, size = self.sides[turned]
        found = np.zeros((size, other.shape[1]), np.float32)
        found[filled] = np.add.reduceat(values[:, None] * other[others], starts)
        return found


def _sorted(by: Places, others: Places, values: Weights, size: int) -> tuple[Places, Places, Places, Weights, int]:
    order = np.argsort(by, kind="stable")
    filled, starts = np.unique(by[order], return_index=True)
    return starts, filled, others[order], values[order].astype(np.float32), size


def descend(x: Cells, y: Weights) -> tuple[Weights, Weights]:
    """Weights and bias with the least loss."""
    at = np.zeros((x.sides[1][4] + 1, y.shape[1]), np.float32)
    ahead, t = at, 1.0
    for _ in range(STEPS):
        raw = x.times(ahead[:-1]) + ahead[-1]
        powers = np.exp(raw - raw.max(1, keepdims=True))
        off = (powers / powers.sum(1, keepdims=True) - y) / len(y)
        slope = np.vstack([x.times(off, turned=True), off.sum(0)]) + HELD * ahead
        new, later = ahead - RATE * slope, (1 + (1 + 4 * t * t) ** 0.5) / 2
        ahead, at, t = new + (t - 1) / later * (new - at), new, later
    return at[:-1], at[-1]


def save(found: Likeness, file: Path = LEARNT) -> None:
    """One byte a weight: what is left out is far below what decides."""
    scale = np.float32(np.abs(found.weights).max() / LARGEST)
    small = np.rint(found.weights / scale).astype(np.int8)
    told: dict[str, Any] = {name: np.frombuffer(text.encode(), np.uint8) for name, text in _texts(found).items()}
    with file.open("wb") as out:
        np.savez_compressed(out, weights=small, scale=scale, bias=found.bias, **told)


def _texts(found: Likeness) -> dict[str, str]:
    names = sorted(found.places, key=found.places.__getitem__)
    return {"features": "\n".join(names), "kinds": "\n".join(found.kinds), "digest": found.digest}


def main() -> int:
    """Says how many examples are read as what they are."""
    given = examples()
    rows = frames(given)
    found = learn(rows, frames(beside(given)))
    save(found)
    right = sum(max((shares := found.shares(text)), key=shares.__getitem__) == kind for kind, text in rows)
    sys.stdout.write(
        f"{len(rows)} examples, {len(found.places)} features: {right} read right; {LEARNT.stat().st_size >> 10} KiB\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
