"""Which items may be in a text: an index over the rarest runs of eight letters of their sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from tuneloop.tools.contamination.matching import KEPT
from tuneloop.tools.contamination.probes import SIZE, Probe

ANCHORS = 2  # shingles that a piece is known by
COMMON = 100  # items; what more of them hold is looked for only in an item that says nothing else
CELLS = 1 << 24
LOT = 1 << 20  # letters of which shingles are made at once
BORDER = "\0"

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


def grouped(values: I64) -> tuple[I64, I64, I64]:
    """The order of the values, then each once, and where it first stands in that order."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]]))
    return order, ordered[first], first


def spread(first: I64, end: I64) -> tuple[I64, I64]:
    """All numbers of some ranges, behind which range each is of."""
    count = end - first
    return np.repeat(np.arange(len(count)), count), np.repeat(end - np.cumsum(count), count) + np.arange(count.sum())


class ShingleIndex:
    """Finds the probes of whose letters enough may be in a text. A piece, a sentence mostly, is there with all its anchors.

    A text that `holds` a probe is found where any piece of it is there that is looked for.
    """

    def __init__(self, probes: Sequence[Probe]) -> None:
        found = [Counter(_pieces(probe)) for probe in probes]
        said = {(text, probe.item) for probe, pieces in zip(probes, found, strict=True) for text, _ in pieces}
        common = Counter(text for text, _ in said)
        numbers: dict[str, int] = {}
        held: list[tuple[int, int, int]] = []  # piece, probe, letters: of a piece that stands there twice those of both
        need = []
        for place, (probe, pieces) in enumerate(zip(probes, found, strict=True)):
            chosen = _chosen(pieces, common)
            held += [(numbers.setdefault(text, len(numbers)), place, times * len(text)) for text, _, times in chosen]
            unknown = len(probe.text) - sum(times * len(text) for text, sentence, times in chosen if sentence)
            need.append(max(1, (1 if probe.whole else min(KEPT)) * len(probe.text) - unknown))
        self._need = np.array(need, np.float64)
        piece, self._probe, self._letters = np.array(sorted(held), np.int64).reshape(-1, 3).T
        self._first = np.searchsorted(piece, np.arange(len(numbers) + 1))
        keys, owners = _anchors(list(numbers))
        order = np.argsort(keys, kind="stable")
        self._keys, self._piece = keys[order], owners[order]
        self._anchors = np.bincount(owners, minlength=len(numbers))
        self._known = np.zeros(CELLS, bool)
        self._known[cells(self._keys)] = True

    def candidates(self, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Text and probe, by place, where a text of merged letters may hold enough of a probe."""
        text, piece = self._pieces_in(texts)
        of, place = spread(self._first[piece], self._first[piece + 1])
        probes = max(1, len(self._need))
        order, pairs, first = grouped(text[of] * probes + self._probe[place])
        if len(pairs):
            text, probe = np.divmod(pairs, probes)
            enough = np.add.reduceat(self._letters[place][order], first) >= self._need[probe]
            yield from zip(text[enough].tolist(), probe[enough].tolist(), strict=True)

    def _pieces_in(self, texts: Sequence[str]) -> tuple[I64, I64]:
        """Text and piece, where all anchors of a piece are."""
        keys = shingles(BORDER.join(texts))
        at = np.flatnonzero(self._known[cells(keys)])
        ends = np.fromiter(accumulate(len(text) + len(BORDER) for text in texts), np.int64, len(texts))
        first = np.searchsorted(self._keys, keys[at])
        of, anchor = spread(first, np.searchsorted(self._keys, keys[at], "right"))
        anchors, pieces = max(1, len(self._keys)), max(1, len(self._anchors))
        _, once, _ = grouped(np.searchsorted(ends, at, "right")[of] * anchors + anchor)
        text, anchor = np.divmod(once, anchors)
        _, pairs, first = grouped(text * pieces + self._piece[anchor])
        text, piece = np.divmod(pairs, pieces)
        whole = np.diff(first, append=len(once)) == self._anchors[piece]
        return text[whole], piece[whole]


def _pieces(probe: Probe) -> Iterator[tuple[str, bool]]:
    """What is looked for of a probe, and whether it is a sentence; short ones that stand side by side are looked for together."""
    side_by_side = ""
    for begin, end in probe.spans:
        if end - begin >= SIZE:
            yield probe.text[begin:end], True
            side_by_side = ""
            continue
        side_by_side += probe.text[begin:end]
        if len(side_by_side) >= SIZE:
            yield side_by_side, False
            side_by_side = ""


def _chosen(pieces: Mapping[tuple[str, bool], int], common: Mapping[str, int]) -> list[tuple[str, bool, int]]:
    """The pieces that few items hold, with how often each stands in the probe; where there are none, the rarest."""
    few = [piece for piece in pieces if common[piece[0]] <= COMMON]
    return [(*piece, pieces[piece]) for piece in few or sorted(pieces, key=lambda piece: common[piece[0]])[:1]]


def _anchors(pieces: Sequence[str]) -> tuple[U64, I64]:
    """The rarest shingles of each piece, and which piece each is of."""
    holders = np.zeros(CELLS, np.uint32)
    for keys, _ in _shingles_of(pieces):
        np.add.at(holders, cells(keys), 1)
    rarest: list[tuple[U64, I64]] = [(np.empty(0, np.uint64), np.empty(0, np.int64))]
    for keys, owners in _shingles_of(pieces):
        order = np.lexsort((holders[cells(keys)], owners))
        taken = order[np.arange(len(order)) - np.searchsorted(owners, owners) < ANCHORS]
        rarest.append((keys[taken], owners[taken]))
    return np.concatenate([keys for keys, _ in rarest]), np.concatenate([owners for _, owners in rarest])


def _shingles_of(pieces: Sequence[str]) -> Iterator[tuple[U64, I64]]:
    """All shingles of the pieces, and which piece each is of, in order, some pieces at a time."""
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    lots = np.cumsum(sizes) // LOT
    for lot in np.unique(lots).tolist():
        first, end = np.searchsorted(lots, [lot, lot + 1]).tolist()
        owners = np.repeat(np.arange(first, end), sizes[first:end])
        inside = np.flatnonzero(owners[: 1 - SIZE] == owners[SIZE - 1 :])
        yield shingles("".join(pieces[first:end]))[inside], owners[inside]
