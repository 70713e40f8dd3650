"""Groups of near copies among texts, so that a split never has one on each side.

Near copies say the same under their dress, or hold the same numbers in the same places and nearly the same words (a
name may be another one). Two texts made from one template with other numbers, or about other things, are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

import numpy as np
import numpy.typing as npt

from tuneloop.tools.contamination.normalize import BREAK, tokens_with_breaks

HASHES = 32
BAND = {True: 2, False: 4}  # by whether numbers narrow the search already
ENOUGH = {True: 0.75, False: 0.85}  # of the words' weight, by whether numbers speak for it too
BESIDE = 0.75  # of what stands beside the numbers
NUMBERS = 2
PART = 1 << 20  # characters of a text that are read at once
LARGE = 24  # a bucket beyond it is compared with its first text and with the one before only

U64 = npt.NDArray[np.uint64]
FACTORS: U64 = np.random.default_rng(30).integers(1, 1 << 63, HASHES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True)
class TextTraits:
    """What is compared of a text: all of it as one hash, its words, and its numbers with what stands beside them."""

    whole: bytes
    words: U64
    numbers: bytes
    places: tuple[tuple[bytes, bytes], ...]


def groups_of_near_copies(texts: Sequence[str]) -> list[int]:
    """The number of each text's group, which is the place of the group's first text."""
    known = [text_traits(text) for text in texts]
    kin = _UnionFind(len(known))
    first: dict[bytes, int] = {}
    for number, one in enumerate(known):
        kin.join(first.setdefault(one.whole, number), number)
    alone = [number for number in range(len(known)) if kin.head(number) == number]
    weight = word_weights([known[n].words for n in alone])
    for a, b in _candidates(known, alone):
        if kin.head(a) != kin.head(b) and are_near_copies(known[a], known[b], weight):
            kin.join(a, b)
    return [kin.head(number) for number in range(len(known))]


def text_traits(text: str) -> TextTraits:
    """Read a text once."""
    whole, before, now = blake2b(digest_size=8), "", BREAK
    words, numbers, places = set[str](), list[str](), list[tuple[bytes, bytes]]()
    for after in chain((token for part in _parts(text) for token in tokens_with_breaks(part)), [BREAK]):
        if now[0].isdecimal():
            numbers.append(now)
            places.append((_pair(before, now), _pair(now, after)))
        if after != BREAK:
            whole.update(f" {after}".encode("utf-8", "surrogatepass"))
            words.add(after)
        before, now = now, after
    hashes = np.unique(np.array([int.from_bytes(_hash(w), "little") for w in words], np.uint64))
    amounts = " ".join(sorted(numbers)) if len(numbers) >= NUMBERS else f"{len(numbers)}"
    return TextTraits(whole.digest(), hashes, _hash(amounts), tuple(places))


def _parts(text: str) -> Iterator[str]:
    """A text that is too long to be read at once in parts, cut between words where there are any."""
    begin = 0
    while len(text) - begin > PART:
        end = text.rfind(" ", begin + PART // 2, begin + PART) + 1 or begin + PART
        yield text[begin:end]
        begin = end
    yield text[begin:]


def word_weights(words: Sequence[U64]) -> dict[int, float]:
    """What a word says: the less, the more texts hold it."""
    counts = Counter(word for one in words for word in one.tolist())
    return {word: float(np.log1p(len(words) / count)) for word, count in counts.items()}


def are_near_copies(a: TextTraits, b: TextTraits, weight: dict[int, float]) -> bool:
    """Whether two texts with the same numbers are near copies."""
    ours, theirs = a.words.tolist(), b.words.tolist()
    shared = set(ours).intersection(theirs)
    most = max(sum(weight[w] for w in ours), sum(weight[w] for w in theirs))
    if sum(weight[w] for w in shared) < ENOUGH[len(a.places) >= NUMBERS] * most:
        return False
    return _placed(a, b) and _placed(b, a)


def _placed(a: TextTraits, b: TextTraits) -> bool:
    """Whether the numbers of `a` stand beside what they stand beside in `b`; one that stands alone need not."""
    known = {side for place in b.places for side in place if side}
    found = [[side in known for side in place if side] for place in a.places if any(place)]
    return all(any(sides) for sides in found) and sum(map(sum, found)) >= BESIDE * sum(map(len, found))


def _candidates(known: Sequence[TextTraits], alone: Sequence[int]) -> Iterator[tuple[int, int]]:
    for numbered in (True, False):
        some = [n for n in alone if (len(known[n].places) >= NUMBERS) == numbered and len(known[n].words)]
        if len(some) > 1:
            yield from _bucket_pairs(some, [known[n] for n in some], BAND[numbered])


def _bucket_pairs(numbers: Sequence[int], known: Sequence[TextTraits], band: int) -> Iterator[tuple[int, int]]:
    """Pairs of texts that agree in their numbers and in a band of their words' least hashes."""
    ends = np.cumsum([len(one.words) for one in known])
    starts = ends - [len(one.words) for one in known]
    words = np.concatenate([one.words for one in known])
    least = np.stack([np.minimum.reduceat(words * factor, starts) for factor in FACTORS], 1)
    amounts = np.frombuffer(b"".join(one.numbers for one in known), np.uint64)
    for begin in range(0, HASHES, band):
        key = amounts.copy()
        for i in range(begin, begin + band):
            key = (key ^ least[:, i]) * FACTORS[i] ^ (key >> np.uint64(31))
        order = np.argsort(key, kind="stable")
        borders = np.flatnonzero(np.diff(key[order])) + 1
        for bucket in np.split(order, borders):
            if len(bucket) > 1:
                yield from ((numbers[a], numbers[b]) for a, b in _pairs(bucket.tolist()))


def _pairs(bucket: list[int]) -> Iterator[tuple[int, int]]:
    for i, b in enumerate(bucket[1:], 1):
        others = bucket[:i] if len(bucket) <= LARGE else {bucket[0], bucket[i - 1]}
        yield from ((a, b) for a in others)


class _UnionFind:
    """Groups that are joined step by step; a group's head is its first member."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def head(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = number = self._parents[self._parents[number]]
        return number

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.head(a), self.head(b)))
        self._parents[high] = low


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _pair(left: str, right: str) -> bytes:
    return b"" if BREAK in (left, right) else _hash(f"{left} {right}")
