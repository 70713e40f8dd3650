"""Looks for the items of all splits of all benchmarks of a run in training rows, row by row, in bounded memory.

An overlap is a row that holds the letters and digits of an item in any case, spacing, punctuation, markup and order of
sentences, whatever stands around, also without some sentences. A short item must be a field of its own. One template with
other numbers, or a question with other facts, is no overlap; a paraphrase is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from tuneloop.core.files import digest
from tuneloop.tools.contamination.letters import letters, merged, readings, with_signs
from tuneloop.tools.contamination.matching import Window, holds
from tuneloop.tools.contamination.probes import (
    SAFE,
    Hit,
    KnownItem,
    common_frames,
    distinctive_fields,
    hit_of,
    make_probes,
    row_texts,
)
from tuneloop.tools.contamination.shingles import SIZE, ShingleIndex, shingles

BATCH = 512
BATCH_SIZE = 1 << 20  # letters, from which a batch is not made longer; what is longer is looked at part by part
SPLITS = ("unseen", "test", "validation")  # a row with items of several is of the first: that is quoted the least
BREAK = "\n"  # between the fields of a row


class ShortItems:
    """Items too short to be looked for inside other texts: by their letters and signs of arithmetic."""

    def __init__(self, items: Sequence[KnownItem], short: set[int]) -> None:
        """`short`: the places of the short ones."""
        items = distinctive_fields(items)
        frames = common_frames(items)
        self._frames = list({("", "")}.union(*frames.values()))
        self._found: dict[str, set[int]] = {}
        for place in short:
            for reading in readings("\n".join(items[place].fields.values())):
                for frame in {("", ""), *frames[items[place].benchmark]}:
                    self._found.setdefault(_bare(with_signs(reading), *frame), set()).add(place)
        self._longest = max(
            (len(key) + sum(map(len, frame)) for key in self._found for frame in self._frames), default=0
        )

    def match(self, text: str, size: int) -> set[int]:
        """The items that a field of `size` letters is."""
        if not 0 < size <= self._longest:
            return set()
        key = with_signs(text)
        return {place for frame in self._frames for place in self._found.get(_bare(key, *frame), ())}


def _bare(key: str, first: str, last: str) -> str:
    found = key.removeprefix(first).removesuffix(last)
    return found or key


class Guard:
    """Knows the items; tells the benchmark and split that a row overlaps with, and of validation items shown which."""

    def __init__(self, items: Sequence[KnownItem]) -> None:
        self._items = items
        probes = list(make_probes(items))
        self._probes = [probe for probe in probes if len(probe.plain.encode()) >= SAFE and len(probe.plain) >= SIZE]
        self._short = ShortItems(items, {p.item for p in probes} - {p.item for p in self._probes})
        self._index = ShingleIndex(self._probes)

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        """For each row, any JSON value: what it overlaps with, sealed items before shown ones; None where with nothing."""
        batch: list[tuple[list[str], set[int]]] = []
        size = 0
        for row in rows:
            batch.append(self._read(row))
            size += sum(map(len, batch[-1][0]))
            if len(batch) == BATCH or size > BATCH_SIZE:
                yield from self._batch(batch)
                batch, size = [], 0
        if batch:
            yield from self._batch(batch)

    @cached_property
    def identity(self) -> str:
        """Hash of what may be shown of which item: what was made with another guard is not to be shown with this one."""
        return digest(*(f"{one.benchmark} {one.split} {one.id}" for one in self._items))

    def overlaps(self, text: str) -> str | None:
        """The split that one text overlaps with; None where with none."""
        found = next(self.find([text]))
        return None if found is None else found.split

    def _read(self, row: Any) -> tuple[list[str], set[int]]:
        """The letters of a row in its readings, in parts that are not too long, and the short items that are its fields."""
        raw, bare, short, differs = [], [], set[int](), False
        for text in row_texts(row):
            forms = [(form, letters(form)) for form in readings(text)]
            raw.append(forms[0][1])
            bare.append(forms[-1][1])
            differs |= raw[-1] != bare[-1]
            for form, plain in forms:
                short |= self._short.match(form, len(plain))
        texts = [BREAK.join(raw), BREAK.join(bare)] if differs else [BREAK.join(raw)]
        return [part for text in texts for part in _parts(text, 2 * self._index.longest)], short

    def _batch(self, rows: Sequence[tuple[list[str], set[int]]]) -> Iterator[Hit | None]:
        found = [short for _, short in rows]
        owned = [(row, text) for row, (texts, _) in enumerate(rows) for text in texts]
        while owned:  # a long row part by part
            count = next(
                (n for n, total in enumerate(accumulate(len(t) for _, t in owned), 1) if total > BATCH_SIZE), None
            )
            self._look(owned[:count], found)
            owned = owned[count:] if count else []
        yield from map(self._hit_of, found)

    def _look(self, owned: Sequence[tuple[int, str]], found: Sequence[set[int]]) -> None:
        """Add the items in texts to what was found in the rows that own them."""
        owners, plain = [row for row, _ in owned], [text for _, text in owned]
        text = [merged(one) for one in plain]
        keys = [shingles(one) for one in text]
        ends = np.cumsum([len(one) for one in keys], dtype=np.int64)
        for at, probe, begin, end in self._index.candidates(np.concatenate(keys), ends) if keys else ():
            item, held = self._probes[probe].item, found[owners[at]]
            tail = end + SIZE - 1
            if item not in held and holds(
                Window(plain[at][begin:tail], text[at][begin:tail], keys[at][begin:end]), self._probes[probe]
            ):
                held.add(item)

    def _hit_of(self, items: set[int]) -> Hit | None:
        if not items:
            return None
        return hit_of(self._items[min(items, key=lambda i: (SPLITS.index(self._items[i].split), i))])


def _parts(text: str, overlap: int) -> Iterator[str]:
    """A long text in parts; what is no longer than `overlap` is in one of them whole."""
    size = max(BATCH_SIZE, 2 * overlap)
    yield text[:size]
    for begin in range(size - overlap, len(text) - overlap, size - overlap):
        yield text[begin : begin + size]
