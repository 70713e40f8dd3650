"""Which items may be in a text: an inverted index over the rarest runs of eight letters of each probe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tuneloop.tools.contamination.letters import merged
from tuneloop.tools.contamination.probes import SIZE, Probe

BLOCKS, OF_BLOCK = 4, 4  # from each quarter of a probe its rarest shingles, so that a cut leaves some
COMMON, AT_LEAST = 100, 4  # what more probes hold is not looked for, but for so many of each probe
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


def distinct(values: I64) -> tuple[I64, I64]:
    """The values in order, each once, and how often it stands; for so many NumPy's `unique` takes ten times as long."""
    ordered = np.sort(values)
    first = np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]]))
    return ordered[first], np.diff(np.append(first, len(ordered)))


class ShingleIndex:
    """Finds probes by their rarest shingles, their anchors."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        holders = np.zeros(CELLS, np.uint32)
        for probe in probes:
            holders[cells(shingles(merged(probe.plain)))] += 1
        anchors = [_anchors(probe, holders) for probe in probes]
        self._need = np.array([max(1, np.ceil(SHARE * len(one))) for one in anchors], np.int64)
        keys, owners = (
            np.concatenate([np.empty(0, np.uint64), *anchors]),
            np.repeat(np.arange(len(probes)), [*map(len, anchors)]),
        )
        order = np.argsort(keys, kind="stable")
        self._keys, self._owners = keys[order], owners[order]
        self._known = np.zeros(CELLS, bool)
        self._known[cells(self._keys)] = True

    def candidates(self, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Text and probe, by place, where a text of merged letters holds enough of a probe's anchors."""
        made = [shingles(text) for text in texts]
        keys = np.concatenate(made)
        at = np.flatnonzero(self._known[cells(keys)])
        text, keys = np.repeat(np.arange(len(made)), [*map(len, made)])[at], keys[at]
        first = np.searchsorted(self._keys, keys)
        count = np.searchsorted(self._keys, keys, "right") - first
        anchor = np.repeat(first + count - np.cumsum(count), count) + np.arange(count.sum())
        once = distinct(np.repeat(text, count) * len(self._keys) + anchor)[0]
        place, anchor = np.divmod(once, max(1, len(self._keys)))
        pairs, counts = distinct(place * len(self._need) + self._owners[anchor])
        place, probe = np.divmod(pairs, max(1, len(self._need)))
        enough = counts >= self._need[probe]
        yield from zip(place[enough].tolist(), probe[enough].tolist(), strict=True)


def _anchors(probe: Probe, holders: npt.NDArray[np.uint32]) -> U64:
    """The rarest shingles of each quarter, those within one sentence first."""
    keys = shingles(merged(probe.plain))
    held = holders[cells(keys)].astype(np.int64)
    for end in probe.ends[:-1]:
        held[max(0, end - SIZE + 1) : end] += 1 << 32
    quarters = np.array_split(np.arange(len(keys)), BLOCKS)
    places = np.concatenate([part[np.argsort(held[part], kind="stable")[:OF_BLOCK]] for part in quarters])
    places = places[np.argsort(held[places], kind="stable")]
    rare = held[places] % (1 << 32) <= COMMON
    rare[:AT_LEAST] = True
    return np.unique(keys[places[rare]])
