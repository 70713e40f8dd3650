"""Everything the guard looks for: the probes of all items as numbers, weighed by how special they are."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tuneloop.tools.contamination.evidence import F64, I64, U64, Probed, probed, weight
from tuneloop.tools.contamination.frames import frame, unframed
from tuneloop.tools.contamination.index import BORDER, STRANGE, Index, Runs, runs
from tuneloop.tools.contamination.known import Known, probes
from tuneloop.tools.likeness.plain import BREAK


class Sought:
    """Probes of the items; words and pairs weigh the less, the more items of one benchmark hold them."""

    def __init__(self, items: Sequence[Known]) -> None:
        names = sorted({item.benchmark for item in items})
        self._probes = list(probes(items))
        self._items = len(items)  # the first probes are the whole items
        self._groups = np.array([names.index(items[p.item].benchmark) for p in self._probes], np.int64)
        self._sizes = np.bincount(self._groups[: self._items], minlength=len(names)).tolist()
        self._framed = [probe.tokens for probe in self._probes[: self._items]]
        for places in self._places():
            self._unframe(places)
        self._tokens = [[sys.intern(token) for token in probe.tokens] for probe in self._probes]
        self._held = [Counter(w for i in places for w in set(self._tokens[i])) for places in self._places()]
        words = sorted({word for tokens in self._tokens for word in tokens} - {BREAK})
        self._ids = {word: number for number, word in enumerate(words, STRANGE + 1)} | {BREAK: BORDER}
        pairs = runs(*self.numbered(self._tokens), 2)
        self._pairs, self._weights = pairs.keys, self._weighed(pairs)
        self._starts = np.searchsorted(pairs.texts, np.arange(len(self._probes) + 1))
        self._probed: dict[int, Probed] = {}

    def benchmarks(self) -> Iterator[dict[int, Sequence[str]]]:
        """The whole items' tokens by number, common instructions too, a benchmark after the other."""
        for places in self._places():
            yield {i: self._framed[i] for i in places}

    def _places(self) -> Iterator[list[int]]:
        for number in range(len(self._sizes)):
            places: list[int] = np.flatnonzero(self._groups[: self._items] == number).tolist()
            yield places

    def _unframe(self, places: Sequence[int]) -> None:
        """Without what all items begin and end with; items of several parts stay as they are."""
        single = [i for i in places if len(self._probes[i].parts) == 1]
        around = frame([list(self._probes[i].parts[0]) for i in single])
        for i in single if any(around) else ():
            bare = unframed(list(self._probes[i].parts[0]), around)
            self._probes[i] = replace(self._probes[i], parts=(tuple(bare),))

    def index(self, without: Collection[int]) -> Index:
        """An index over the probes of all items but some."""
        kept = [[] if p.item in without else t for p, t in zip(self._probes, self._tokens, strict=True)]
        return Index(*self.numbered(kept), len(kept))

    def item(self, probe: int) -> int:
        """The place of a probe's item."""
        return self._probes[probe].item

    def numbered(self, texts: Sequence[Sequence[str]]) -> tuple[I64, I64]:
        """Ids of the tokens of all texts, and the text of each."""
        known, lengths = self._ids, [len(text) for text in texts]
        ids = np.fromiter((known.get(token, STRANGE) for text in texts for token in text), np.int64, sum(lengths))
        return ids, np.repeat(np.arange(len(texts)), lengths)

    def probed(self, probe: int) -> Probed:
        """A probe, weighed; kept, as most are never asked for."""
        if probe not in self._probed:
            mine, group = slice(self._starts[probe], self._starts[probe + 1]), int(self._groups[probe])
            self._probed[probe] = probed(
                self._probes[probe],
                self._held[group],
                self._sizes[group],
                self._pairs[mine],
                self._weights[mine],
            )
        return self._probed[probe]

    def _weighed(self, pairs: Runs) -> F64:
        found = np.zeros(len(pairs.keys))
        group = self._groups[pairs.texts]
        for number, items in enumerate(self._sizes):
            mine: U64 = pairs.keys[group == number]
            keys, counts = np.unique(pairs.keys[(group == number) & (pairs.texts < self._items)], return_counts=True)
            if len(keys):
                at = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
                found[group == number] = weight(np.where(keys[at] == mine, counts[at], 1), items)
        return found
