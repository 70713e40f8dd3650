"""Everything the guard looks for: the probes of all items as numbers, weighed by how special they are."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tuneloop.tools.contamination.matching import (
    BORDER,
    F64,
    I64,
    STRANGE,
    U64,
    RunIndex,
    TokenRuns,
    WeightedProbe,
    token_runs,
    weigh_probe,
    word_weight,
)
from tuneloop.tools.contamination.normalize import BREAK
from tuneloop.tools.contamination.probes import KnownItem, make_probes

# The common instruction: what all items of a benchmark begin and end with.

ENOUGH = 8

Frame = tuple[list[str], list[str]]


def common_frame(texts: Sequence[list[str]]) -> Frame:
    """Tokens that all texts begin with, and end with: the common instruction. None for a handful of texts."""
    if len(texts) < ENOUGH:
        return [], []
    first, last = common_prefix(texts), common_prefix([words[::-1] for words in texts])
    return first, last[::-1]


def common_prefix(texts: Sequence[list[str]]) -> list[str]:
    """The longest common beginning."""
    low, high = min(texts), max(texts)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]


def strip_frame(words: list[str], around: Frame) -> list[str]:
    """Without the common beginning and end, where they are there and something is left between them."""
    first, last = around
    start = len(first) if first and words[: len(first)] == first else 0
    stop = len(words) - len(last) if last and words[-len(last) :] == last else len(words)
    return words[start:stop] if start < stop else words


class ProbeIndex:
    """Probes of the items; words and pairs weigh the less, the more items of one benchmark hold them."""

    def __init__(self, items: Sequence[KnownItem]) -> None:
        names = sorted({item.benchmark for item in items})
        self._probes = list(make_probes(items))
        self._items = len(items)  # the first probes are the whole items
        self._groups = np.array([names.index(items[p.item].benchmark) for p in self._probes], np.int64)
        self._sizes = np.bincount(self._groups[: self._items], minlength=len(names)).tolist()
        self._framed = [probe.tokens for probe in self._probes[: self._items]]
        for places in self._places():
            self._strip_frames(places)
        self._tokens = [[sys.intern(token) for token in probe.tokens] for probe in self._probes]
        self._held = [Counter(w for i in places for w in set(self._tokens[i])) for places in self._places()]
        words = sorted({word for tokens in self._tokens for word in tokens} - {BREAK})
        self._ids = {word: number for number, word in enumerate(words, STRANGE + 1)} | {BREAK: BORDER}
        pairs = token_runs(*self.number_tokens(self._tokens), 2)
        self._pairs, self._weights = pairs.keys, self._pair_weights(pairs)
        self._starts = np.searchsorted(pairs.texts, np.arange(len(self._probes) + 1))
        self._probed: dict[int, WeightedProbe] = {}

    def benchmarks(self) -> Iterator[dict[int, Sequence[str]]]:
        """The whole items' tokens by number, common instructions too, a benchmark after the other."""
        for places in self._places():
            yield {i: self._framed[i] for i in places}

    def _places(self) -> Iterator[list[int]]:
        for number in range(len(self._sizes)):
            places: list[int] = np.flatnonzero(self._groups[: self._items] == number).tolist()
            yield places

    def _strip_frames(self, places: Sequence[int]) -> None:
        """Without what all items begin and end with; items of several parts stay as they are."""
        single = [i for i in places if len(self._probes[i].parts) == 1]
        around = common_frame([list(self._probes[i].parts[0]) for i in single])
        for i in single if any(around) else ():
            bare = strip_frame(list(self._probes[i].parts[0]), around)
            self._probes[i] = replace(self._probes[i], parts=(tuple(bare),))

    def index(self, without: Collection[int]) -> RunIndex:
        """An index over the probes of all items but some."""
        kept = [[] if p.item in without else t for p, t in zip(self._probes, self._tokens, strict=True)]
        return RunIndex(*self.number_tokens(kept), len(kept))

    def item(self, probe: int) -> int:
        """The place of a probe's item."""
        return self._probes[probe].item

    def number_tokens(self, texts: Sequence[Sequence[str]]) -> tuple[I64, I64]:
        """Ids of the tokens of all texts, and the text of each."""
        known, lengths = self._ids, [len(text) for text in texts]
        ids = np.fromiter((known.get(token, STRANGE) for text in texts for token in text), np.int64, sum(lengths))
        return ids, np.repeat(np.arange(len(texts)), lengths)

    def weighed_probe(self, probe: int) -> WeightedProbe:
        """A probe, weighed; kept, as most are never asked for."""
        if probe not in self._probed:
            mine, group = slice(self._starts[probe], self._starts[probe + 1]), int(self._groups[probe])
            self._probed[probe] = weigh_probe(
                self._probes[probe],
                self._held[group],
                self._sizes[group],
                self._pairs[mine],
                self._weights[mine],
            )
        return self._probed[probe]

    def _pair_weights(self, pairs: TokenRuns) -> F64:
        found = np.zeros(len(pairs.keys))
        group = self._groups[pairs.texts]
        for number, items in enumerate(self._sizes):
            mine: U64 = pairs.keys[group == number]
            keys, counts = np.unique(pairs.keys[(group == number) & (pairs.texts < self._items)], return_counts=True)
            if len(keys):
                at = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
                found[group == number] = word_weight(np.where(keys[at] == mine, counts[at], 1), items)
        return found
