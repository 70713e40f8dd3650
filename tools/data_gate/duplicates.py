"""Which rows came before: the same, nearly the same, or the same question with another answer; 64 bytes a row.

Nearly the same: equal but for case, punctuation and spacing; or, in longer rows, with the same numbers and signs in the
same order and about seven eighths of their three-word runs in common (MinHash: 32 smallest hashes, compared in bands of
four). So two problems of one template differ as long as their numbers do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tuneloop.tools.data_gate.records import TrainingRow

TOKEN = re.compile(r"[^\W_]+|[-+*/=<>^%]")
SIGNS = frozenset("-+*/=<>^%")
HASHES, BAND, ALIKE = 32, 4, 28
SHORTEST = 8  # three-word runs; shorter rows are compared whole
LONGEST = 4096
MOST = 1_000_000

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
_random = np.random.default_rng(20)
FACTORS: U64 = _random.integers(1, 1 << 63, HASHES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
MIX: U64 = _random.integers(1, 1 << 63, 3, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True)
class DuplicateCounts:
    """Counts, and the first pair (rows from 1) that is nearly the same."""

    exact: int = 0
    near: int = 0
    reasked: int = 0
    first: tuple[int, int] | None = None


@dataclass
class DuplicateIndex:
    """Hashes of the rows so far; beyond `MOST` rows nothing is added."""

    rows: int = 0
    numbers: list[U32] = field(default_factory=list)
    _keys: list[U64] = field(default_factory=list)
    _signatures: list[U8] = field(default_factory=list)

    def add(self, rows: list[TrainingRow], numbers: list[int]) -> None:
        """Take a batch in; `numbers` are the rows' places in the file."""
        if not rows or self.rows >= MOST:
            return
        self.rows += len(rows)
        self.numbers.append(np.array(numbers, np.uint32))
        keys, words, ends = [], [], []
        for row in rows:
            asked, answered = TOKEN.findall(row.asked.lower()), TOKEN.findall(" ".join(row.answers).lower())
            question, plain = " ".join(asked), " ".join(answered)
            amounts = " ".join(t for t in (*asked, *answered) if t[0].isdigit() or t in SIGNS)
            whole = _hash(row.asked, *row.answers, str(row.good))
            keys.append((whole, _hash(question, plain, str(row.good)), _hash(question), _hash(amounts)))
            some = (asked + answered)[:LONGEST]
            words += [crc32(t.encode("utf-8", "surrogatepass")) for t in some]
            ends.append(len(words))
        self._keys.append(np.array(keys, np.uint64))
        self._signatures.append(_signatures(np.array(words, np.uint64), ends))

    def found(self) -> DuplicateCounts:
        """Each row against those before it."""
        if not self._keys:
            return DuplicateCounts()
        keys = np.concatenate(self._keys)
        exact, near, asked = (_seen_before(keys[:, i]) for i in range(3))
        new = ~exact & ~near & ~asked
        pairs = _similar_pairs(keys[:, 3], np.concatenate(self._signatures))
        like = np.zeros(len(keys), bool)
        like[pairs[:, 0]] = True
        like &= new
        chosen = pairs[like[pairs[:, 0]]]
        numbers = np.concatenate(self.numbers)
        first = chosen[np.argmin(chosen[:, 0])] if len(chosen) else None
        return DuplicateCounts(
            exact=int(exact.sum()),
            near=int((near & ~exact).sum() + like.sum()),
            reasked=int((asked & ~near & ~exact).sum()),
            first=None if first is None else (int(numbers[first[0]]), int(numbers[first[1]])),
        )


def _hash(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def _signatures(words: U64, ends: list[int]) -> U8:
    """One byte of the smallest of each of 32 hashes over a row's runs of three words; zeros for a short row."""
    stops = np.array(ends)
    starts = np.concatenate([[0], stops[:-1]])
    result = np.zeros((len(ends), HASHES), np.uint8)
    long = stops - starts >= SHORTEST + 2
    if not long.any():
        return result
    runs = words * MIX[0]
    runs[:-1] += words[1:] * MIX[1]
    runs[:-2] += words[2:] * MIX[2]
    runs ^= runs >> np.uint64(29)
    # A run that goes over a row's end counts for nobody: each row's own end with its last whole run.
    edges = np.stack([starts[long], stops[long] - 2], 1).ravel()
    for i, factor in enumerate(FACTORS):
        least = np.minimum.reduceat(runs * factor, edges)[::2]
        result[long, i] = (least >> np.uint64(20)) & np.uint64(255)
    result[long, 0] |= 1  # never all zeros
    return result


def _seen_before(keys: U64) -> npt.NDArray[np.bool_]:
    """Whether a key came before."""
    order = np.argsort(keys, kind="stable")
    again = np.zeros(len(keys), bool)
    again[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return again


def _similar_pairs(amounts: U64, signatures: U8) -> npt.NDArray[np.int64]:
    """Pairs (row, earlier row): in one bucket, compared with its first row and with the one before."""
    rows = np.flatnonzero(signatures.any(1))
    bands = np.ascontiguousarray(signatures[rows]).view(np.uint32)
    found = [np.empty((0, 2), np.int64)]
    for i in range(bands.shape[1]):
        key = amounts[rows] ^ (bands[:, i].astype(np.uint64) * MIX[0])
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        same = np.concatenate([[False], ordered[1:] == ordered[:-1]])
        head = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
        at = np.flatnonzero(same)
        for other in (head[at], at - 1):
            one, two = rows[order[at]], rows[order[other]]
            enough = (signatures[one] == signatures[two]).sum(1) >= ALIKE
            found.append(np.stack([one, two], 1)[enough])
    return np.concatenate(found)
