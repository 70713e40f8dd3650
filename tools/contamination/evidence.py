"""Whether a row really holds what a probe looks for: its numbers in their places, its words, its pairs of words.

A word says the less, the more of the benchmark's items hold it; so a common instruction says nothing, and two problems of
one template are different by what is theirs. A name may be another one: the rest has to be there all the more.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tuneloop.tools.contamination.known import Probe
from tuneloop.tools.likeness.plain import BREAK

HEAVIEST, LIGHTEST = 4.0, 0.1
PART = {True: 0.85, False: 0.7}  # of the words' weight of each part, by whether the probe is strict
WORDS = {True: 0.82, False: 0.85}  # of all words' weight, by whether two numbers or more speak too
PAIRS = {True: 0.5, False: 0.7}  # of the pairs' weight, likewise
SHORT, PAIRS_OF_SHORT = 12, 0.8
BESIDE, LOST = 0.75, 1  # of what stands beside the numbers; so many neighbours may be lost in any case

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Row:
    """One row's tokens with borders between its texts, and the keys of its pairs, sorted."""

    tokens: Sequence[str]
    pairs: U64

    @cached_property
    def words(self) -> frozenset[str]:
        """Each once."""
        return frozenset(self.tokens)

    @cached_property
    def beside(self) -> frozenset[tuple[str, str]]:
        """Every number with its neighbours."""
        pairs = itertools.pairwise(self.tokens)
        return frozenset((a, b) for a, b in pairs if a[0].isdecimal() or b[0].isdecimal())

    @cached_property
    def numbers(self) -> Counter[str]:
        """How often each number occurs."""
        return Counter(word for word in self.tokens if word[0].isdecimal())


@dataclass(frozen=True)
class Probed:
    """What a probe looks like: weights of words by part and of pairs, its numbers and what stands beside them."""

    parts: tuple[dict[str, float], ...]
    pairs: U64
    weights: F64
    numbers: Counter[str]
    places: tuple[tuple[tuple[str, str], ...], ...]
    size: int
    part: float

    def held_by(self, row: Row) -> bool:
        """Whether the row holds it; what is cheap and tells most apart is asked first."""
        if any(row.numbers[number] < count for number, count in self.numbers.items()):
            return False
        numbered = sum(self.numbers.values()) > 1
        return self._worded(row, WORDS[numbered]) and self._placed(row) and self._paired(row, numbered)

    def _worded(self, row: Row, share: float) -> bool:
        have = [sum(weight for word, weight in part.items() if word in row.words) for part in self.parts]
        want = [sum(part.values()) for part in self.parts]
        return sum(have) >= share * sum(want) and all(h >= self.part * w for h, w in zip(have, want, strict=True))

    def _placed(self, row: Row) -> bool:
        """Whether its numbers stand beside what they stand beside here; one that stands alone need not."""
        found = [[side in row.beside for side in place] for place in self.places if place]
        total, kept = sum(map(len, found)), sum(map(sum, found))
        return all(any(sides) for sides in found) and kept >= min(BESIDE * total, total - LOST)

    def _paired(self, row: Row, numbered: bool) -> bool:
        share = PAIRS_OF_SHORT if self.size < SHORT else PAIRS[numbered]
        found = np.isin(self.pairs, row.pairs, assume_unique=True)
        return bool(self.weights[found].sum() >= share * self.weights.sum())


def probed(probe: Probe, held: Mapping[str, int], items: int, pairs: U64, weights: F64) -> Probed:
    """A probe, weighed; `held`: how many of the benchmark's `items` hold each word."""
    padded = [BREAK, *probe.tokens]
    at = [i for i, token in enumerate(padded) if token[0].isdecimal()]
    sides = (((padded[i - 1], padded[i]), (padded[i], padded[i + 1])) for i in at)
    words = [sorted(set(part) - {BREAK}) for part in probe.parts]
    weighed = [weight(np.array([held[w] for w in part], np.int64), items).tolist() for part in words]
    return Probed(
        parts=tuple(dict(zip(part, w, strict=True)) for part, w in zip(words, weighed, strict=True)),
        pairs=pairs,
        weights=weights,
        numbers=Counter(padded[i] for i in at),
        places=tuple(tuple(side for side in both if BREAK not in side) for both in sides),
        size=sum(token != BREAK for token in padded),
        part=PART[probe.strict],
    )


def weight(holders: I64, items: int) -> F64:
    """From 0.1 for what all items hold to 4 for what few hold."""
    return np.minimum(HEAVIEST, np.log(np.maximum(1.0, items / np.maximum(1, holders))) + LIGHTEST)
