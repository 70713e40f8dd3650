"""Which items may be in a text, and where: an inverted index over the rarest runs of eight letters of each probe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tuneloop.tools.contamination.letters import merged
from tuneloop.tools.contamination.probes import Probe

SIZE = 8  # letters of a shingle
BLOCKS, OF_BLOCK = 4, 4  # from each quarter of a probe its rarest shingles, so that a cut leaves some
COMMON, AT_LEAST = 50, 4  # what more probes hold is not looked for, but for so many of each probe
SHARE = 0.25  # of a probe's anchors that must be there
CELLS = 1 << 24

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
FACTORS: U64 = np.random.default_rng(40).integers(1, 1 << 63, 4, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def shingles(text: str) -> U64:
    """A number for each run of eight letters, by its place."""
    found = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    for step, factor in zip((1, 2, 4), FACTORS, strict=False):
        found = found[:-step] * factor + found[step:]
    found ^= found >> np.uint64(32)
    mixed: U64 = found * FACTORS[3]
    return mixed


def cells(keys: U64) -> I64:
    """Where a key stands in a table of all."""
    return (keys >> np.uint64(40)).astype(np.int64)


class ShingleIndex:
    """Finds probes by their rarest shingles, their anchors."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        holders = np.zeros(CELLS, np.uint32)
        for probe in probes:
            holders[cells(shingles(merged(probe.plain)))] += 1
        anchors = [_anchors(probe, holders) for probe in probes]
        self._count = max(1, len(probes))
        self._need = np.array([max(1, np.ceil(SHARE * len(one))) for one in anchors], np.int64)
        self._span = np.array([2 * len(probe.plain) + 1000 for probe in probes], np.int64)
        self._probes = np.repeat(np.arange(len(probes)), [len(one) for one in anchors])
        keys = np.concatenate([np.empty(0, np.uint64), *anchors])
        self._order = np.argsort(keys, kind="stable")
        self._keys, self._starts, self._lengths = np.unique(keys, return_index=True, return_counts=True)
        self._starts = np.searchsorted(keys[self._order], self._keys)
        self._known = np.zeros(CELLS, bool)
        self._known[cells(self._keys)] = True
        self.longest = int(self._span.max(initial=SIZE))

    def candidates(self, keys: U64, ends: I64) -> Iterator[tuple[int, int, int, int]]:
        """Text, probe, and from where to where in the text the probe may be; text `n` ends at the key `ends[n]`."""
        at = np.flatnonzero(self._known[cells(keys)])
        found = np.minimum(np.searchsorted(self._keys, keys[at]), max(0, len(self._keys) - 1))
        if not len(at) or not len(self._keys):
            return
        same = self._keys[found] == keys[at]
        at, found = at[same], found[same]
        lengths = self._lengths[found]
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        anchor = self._order[np.repeat(self._starts[found], lengths) + steps]
        at = np.repeat(at, lengths)
        text = np.searchsorted(ends, at, side="right")
        begins = np.concatenate([[0], ends])[text]
        window = (at - begins) // self._span[self._probes[anchor]]
        yield from self._enough(text, window, anchor)

    def _enough(self, text: I64, window: I64, anchor: I64) -> Iterator[tuple[int, int, int, int]]:
        """Of any two windows side by side those with enough of a probe's anchors."""
        if not len(text):
            return
        second = window > 0
        text, anchor = np.concatenate([text, text[second]]), np.concatenate([anchor, anchor[second]])
        window = np.concatenate([window, window[second] - 1])
        most = int(window.max()) + 1
        once = np.unique((text * most + window) * len(self._probes) + anchor)
        place, anchor = np.divmod(once, len(self._probes))
        places, counts = np.unique(place * self._count + self._probes[anchor], return_counts=True)
        places = places[counts >= self._need[places % self._count]]
        place, probe = np.divmod(places, self._count)
        text, window = np.divmod(place, most)
        begin = window * self._span[probe]
        ends = begin + 2 * self._span[probe]
        yield from zip(text.tolist(), probe.tolist(), begin.tolist(), ends.tolist(), strict=True)


def _anchors(probe: Probe, holders: npt.NDArray[np.uint32]) -> U64:
    """The rarest shingles of each quarter, those within one sentence first."""
    keys = shingles(merged(probe.plain))
    held = holders[cells(keys)].astype(np.int64)
    for end in probe.ends[:-1]:
        held[max(0, end - SIZE + 1) : end] += 1 << 32
    chosen = [begin + np.argsort(part, kind="stable")[:OF_BLOCK] for begin, part in _blocks(held)]
    places = np.concatenate(chosen)
    places = places[np.argsort(held[places], kind="stable")]
    rare = held[places] % (1 << 32) <= COMMON
    rare[:AT_LEAST] = True
    return np.unique(keys[places[rare]])


def _blocks(held: I64) -> Iterator[tuple[int, I64]]:
    begin = 0
    for part in np.array_split(held, BLOCKS):
        yield begin, part
        begin += len(part)
