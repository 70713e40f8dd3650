"""Which items may be in a row: an inverted index over the runs of two and three tokens that few items share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BORDER, STRANGE = 0, 1  # ids: a border between parts, a token that no item has
MOST_ITEMS = 50
RAREST, AT_LEAST = 64, 8
SHARE = 0.25

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Runs:
    """Runs of tokens as 64-bit keys, each with the text (by number) it occurs in; sorted, each once a text."""

    texts: I64
    keys: U64


def runs(ids: I64, owners: I64, length: int) -> Runs:
    """Runs of `length` tokens within one text and one part; `owners` is the text of each token, ascending."""
    count = len(ids) - length + 1
    if count <= 0:
        return Runs(np.empty(0, np.int64), np.empty(0, np.uint64))
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
    return Runs(pairs["text"][new], pairs["key"][new])


def joined(two: Runs, three: Runs) -> Runs:
    """Runs of two and of three tokens."""
    return Runs(np.concatenate([two.texts, three.texts]), np.concatenate([two.keys, three.keys]))


class Index:
    """Texts to look for, found by their rarest runs."""

    def __init__(self, ids: I64, owners: I64, count: int) -> None:
        """`ids` are the tokens of `count` texts in a row, `owners` the text of each."""
        found = joined(runs(ids, owners, 2), runs(ids, owners, 3))
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

    def candidates(self, found: Runs) -> list[tuple[int, int]]:
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
