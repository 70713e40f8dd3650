"""What a clause is most like of all that people were heard to say: `phrasings/KIND.txt`, learnt into `likeness.npz`.

A linear reader of words, pairs of words and pieces of words. What a clause names stands in it as a tag, so that it is the
frame that is learnt and not the names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuneloop.agents.steering.clause import Clause

LEARNT = Path(__file__).with_name("likeness.npz")
TOKEN = re.compile(r"<\w>|[^\s,.;:!?-]+|\?")
SEVERAL = "several"  # kinds in one message
PIECES = (3, 4, 5)  # letters
Weights = NDArray[np.float32]


def frame(clause: Clause, *, asks: bool) -> str:
    """Its words, with tags that only say what kind of thing is named."""
    return re.sub(r"<(\w)\d+>", r"<\1>", clause.text) + (" ?" if asks else "")


def features(text: str) -> Iterator[dict[str, float]]:
    """Words with their neighbours, then pieces of words; each as a vector of length 1."""
    words = ["^", *TOKEN.findall(text), "$"]
    near = [f"{a} {b}" for a, b in pairwise(words)] + [f"{a} _ {b}" for a, b in zip(words, words[2:], strict=False)]
    yield unit(Counter(words[1:-1] + near))
    spelt = [f" {word} " for word in words[1:-1] if not word.startswith("<")]
    yield unit(Counter(f"#{word[i : i + n]}" for word in spelt for n in PIECES for i in range(len(word) - n + 1)))


def unit(counts: Mapping[str, int]) -> dict[str, float]:
    """Counts, damped, as a vector of length 1."""
    damped = {name: 1 + float(np.log(count)) for name, count in counts.items()}
    length = sum(value * value for value in damped.values()) ** 0.5
    return {name: value / length for name, value in damped.items()}


@dataclass(frozen=True)
class Likeness:
    """`weights`: (features, kinds) float32; `places`: of features in it; `digest`: of the examples that it was learnt from."""

    kinds: Sequence[str]
    places: Mapping[str, int]
    weights: Weights
    bias: Weights
    digest: str

    def shares(self, text: str) -> dict[str, float]:
        """Every kind with its share of 1."""
        total = self.bias.copy()
        for group in features(text):
            for name, value in group.items():
                if (place := self.places.get(name)) is not None:
                    total += value * self.weights[place]
        powers = np.exp(total - total.max())
        return dict(zip(self.kinds, (powers / powers.sum()).tolist(), strict=True))


@cache
def learnt() -> Likeness:
    """The reader that comes with the package."""
    with np.load(LEARNT, allow_pickle=False) as file:
        names = file["features"].tobytes().decode().split("\n")
        return Likeness(
            kinds=tuple(file["kinds"].tobytes().decode().split("\n")),
            places={name: i for i, name in enumerate(names)},
            weights=file["weights"].astype(np.float32) * file["scale"],
            bias=file["bias"].astype(np.float32),
            digest=file["digest"].tobytes().decode(),
        )
