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

from tuneloop.tools.contamination.normalize import BREAK
from tuneloop.tools.contamination.probes import Probe

# Which items may be in a row: an inverted index over the runs of two and three tokens that few items share.

BORDER, STRANGE = 0, 1  # ids: a border between parts, a token that no item has
MOST_ITEMS = 50
RAREST, AT_LEAST = 64, 8
SHARE = 0.25

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class TokenRuns:
    """Runs of tokens as 64-bit keys, each with the text (by number) it occurs in; sorted, each once a text."""

    texts: I64
    keys: U64


def token_runs(ids: I64, owners: I64, length: int) -> TokenRuns:
    """Runs of `length` tokens within one text and one part; `owners` is the text of each token, ascending."""
    count = len(ids) - length + 1
    if count <= 0:
        return TokenRuns(np.empty(0, np.int64), np.empty(0, np.uint64))
    key = np.full(count, length, np.uint64)
    whole = owners[:count] == owners[length - 1 :]
    for shift in range(length):
        part = ids[shift : shift + count]
        whole &= part > STRANGE
        key = (key ^ part.astype(np.uint64)) * MIX
        key ^= key >> np.uint64(32)
    pairs = np.empty(int(whole.sum()), [("text", np.int64), ("key", np.uint64)])
    pairs["text"], pairs["key"] = owners[:count][whole], key[whole]
    order = np.lexsort((pairs["key"], pairs["text"]))
    pairs = pairs[order]
    new = np.ones(len(pairs), bool)
    new[1:] = (pairs["text"][1:] != pairs["text"][:-1]) | (pairs["key"][1:] != pairs["key"][:-1])
    return TokenRuns(pairs["text"][new], pairs["key"][new])


def two_and_three_runs(two: TokenRuns, three: TokenRuns) -> TokenRuns:
    """Runs of two and of three tokens."""
    return TokenRuns(np.concatenate([two.texts, three.texts]), np.concatenate([two.keys, three.keys]))


class RunIndex:
    """Texts to look for, found by their rarest runs."""

    def __init__(self, ids: I64, owners: I64, count: int) -> None:
        """`ids` are the tokens of `count` texts in a row, `owners` the text of each."""
        found = two_and_three_runs(token_runs(ids, owners, 2), token_runs(ids, owners, 3))
        keys, at, shared = np.unique(found.keys, return_inverse=True, return_counts=True)
        order = np.lexsort((shared[at], found.texts))
        texts, at = found.texts[order], at[order]
        starts = np.searchsorted(texts, np.arange(count))
        rank = np.arange(len(texts)) - starts[texts] if len(texts) else np.empty(0, np.int64)
        kept = (rank < AT_LEAST) | ((rank < RAREST) & (shared[at] <= MOST_ITEMS))
        texts, at = texts[kept], at[kept]
        by_key = np.argsort(at, kind="stable")
        self._texts, at = texts[by_key], at[by_key]
        used, self._starts, self._lengths = np.unique(at, return_index=True, return_counts=True)
        self._keys = keys[used]
        self._need = np.maximum(1, np.ceil(SHARE * np.bincount(texts, minlength=count))).astype(np.int64)
        self._count = count

    def candidates(self, found: TokenRuns) -> list[tuple[int, int]]:
        """Pairs (row, text) in which enough of the text's rarest runs are in the row."""
        if not len(self._keys) or not len(found.keys):
            return []
        at = np.minimum(np.searchsorted(self._keys, found.keys), len(self._keys) - 1)
        hit = self._keys[at] == found.keys
        at, rows = at[hit], found.texts[hit]
        lengths = self._lengths[at]
        ends = np.cumsum(lengths)
        if not len(ends):
            return []
        step = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        texts = self._texts[np.repeat(self._starts[at], lengths) + step]
        pairs, counts = np.unique(np.repeat(rows, lengths) * self._count + texts, return_counts=True)
        enough = pairs[counts >= self._need[pairs % self._count]]
        rows, texts = np.divmod(enough, self._count)
        return list(zip(rows.tolist(), texts.tolist(), strict=True))


HEAVIEST, LIGHTEST = 4.0, 0.1
PART = {True: 0.85, False: 0.7}  # of the words' weight of each part, by whether the probe is strict
WORDS = {True: 0.82, False: 0.85}  # of all words' weight, by whether two numbers or more speak too
PAIRS = {True: 0.5, False: 0.7}  # of the pairs' weight, likewise
SHORT, PAIRS_OF_SHORT = 12, 0.8
BESIDE, LOST = 0.75, 1  # of what stands beside the numbers; so many neighbours may be lost in any case

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TokenizedRow:
    """One row's tokens with borders between its texts, and the keys of its pairs, sorted."""

    tokens: Sequence[str]
    pairs: U64

    @cached_property
    def words(self) -> frozenset[str]:
        """Each once."""
        return frozenset(self.tokens)

    @cached_property
    def number_neighbours(self) -> frozenset[tuple[str, str]]:
        """Every number with its neighbours."""
        pairs = itertools.pairwise(self.tokens)
        return frozenset((a, b) for a, b in pairs if a[0].isdecimal() or b[0].isdecimal())

    @cached_property
    def numbers(self) -> Counter[str]:
        """How often each number occurs."""
        return Counter(word for word in self.tokens if word[0].isdecimal())


@dataclass(frozen=True)
class WeightedProbe:
    """What a probe looks like: weights of words by part and of pairs, its numbers and what stands beside them."""

    parts: tuple[dict[str, float], ...]
    pairs: U64
    weights: F64
    numbers: Counter[str]
    places: tuple[tuple[tuple[str, str], ...], ...]
    size: int
    part: float

    def match(self, row: TokenizedRow) -> bool:
        """Whether the row holds it; what is cheap and tells most apart is asked first."""
        if any(row.numbers[number] < count for number, count in self.numbers.items()):
            return False
        numbered = sum(self.numbers.values()) > 1
        return (
            self._has_words(row, WORDS[numbered]) and self._has_numbers_in_place(row) and self._has_pairs(row, numbered)
        )

    def _has_words(self, row: TokenizedRow, share: float) -> bool:
        have = [sum(weight for word, weight in part.items() if word in row.words) for part in self.parts]
        want = [sum(part.values()) for part in self.parts]
        return sum(have) >= share * sum(want) and all(h >= self.part * w for h, w in zip(have, want, strict=True))

    def _has_numbers_in_place(self, row: TokenizedRow) -> bool:
        """Whether its numbers stand beside what they stand beside here; one that stands alone need not."""
        found = [[side in row.number_neighbours for side in place] for place in self.places if place]
        total, kept = sum(map(len, found)), sum(map(sum, found))
        return all(any(sides) for sides in found) and kept >= min(BESIDE * total, total - LOST)

    def _has_pairs(self, row: TokenizedRow, numbered: bool) -> bool:
        share = PAIRS_OF_SHORT if self.size < SHORT else PAIRS[numbered]
        found = np.isin(self.pairs, row.pairs, assume_unique=True)
        return bool(self.weights[found].sum() >= share * self.weights.sum())


def weigh_probe(probe: Probe, held: Mapping[str, int], items: int, pairs: U64, weights: F64) -> WeightedProbe:
    """A probe, weighed; `held`: how many of the benchmark's `items` hold each word."""
    padded = [BREAK, *probe.tokens]
    at = [i for i, token in enumerate(padded) if token[0].isdecimal()]
    sides = (((padded[i - 1], padded[i]), (padded[i], padded[i + 1])) for i in at)
    words = [sorted(set(part) - {BREAK}) for part in probe.parts]
    weighed = [word_weight(np.array([held[w] for w in part], np.int64), items).tolist() for part in words]
    return WeightedProbe(
        parts=tuple(dict(zip(part, w, strict=True)) for part, w in zip(words, weighed, strict=True)),
        pairs=pairs,
        weights=weights,
        numbers=Counter(padded[i] for i in at),
        places=tuple(tuple(side for side in both if BREAK not in side) for both in sides),
        size=sum(token != BREAK for token in padded),
        part=PART[probe.strict],
    )


def word_weight(holders: I64, items: int) -> F64:
    """From 0.1 for what all items hold to 4 for what few hold."""
    return np.minimum(HEAVIEST, np.log(np.maximum(1.0, items / np.maximum(1, holders))) + LIGHTEST)
