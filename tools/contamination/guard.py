"""Looks for the items of all splits of all benchmarks of a run in training rows, row by row, in bounded memory.

An overlap is a row that holds the letters and digits of an item in any case, spacing, punctuation, markup and order of
sentences, whatever stands around, also without some sentences. A short item must be a field of its own. One template with
other numbers, or a question with other facts, is no overlap; a paraphrase is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, groupby
from typing import Any

from tuneloop.core.files import digest
from tuneloop.tools.contamination.letters import letters, merged, readings, with_signs
from tuneloop.tools.contamination.matching import holds
from tuneloop.tools.contamination.probes import (
    SENTENCE,
    Hit,
    KnownItem,
    hit_of,
    make_probes,
    row_texts,
    shared_sentences,
)
from tuneloop.tools.contamination.shingles import ShingleIndex

BATCH = 512
BATCH_SIZE = 1 << 20  # letters, from which a batch is not made longer
PART = 1 << 13  # letters of a long row that are looked at together, or more for longer items; each stands in two parts
SPLITS = ("unseen", "test", "validation")  # a row with items of several is of the first: that is quoted the least
BREAK = "\n"  # between the fields of a row
REMEMBERED = 1 << 18  # rows without an overlap that are not looked at again, 25 MB


class Guard:
    """Knows the items; tells the benchmark and split that a row overlaps with, and of validation items shown which."""

    def __init__(self, items: Sequence[KnownItem]) -> None:
        self._items = items
        self._shared = shared_sentences(items)
        probes = list(make_probes(items, self._shared))
        self._probes = [probe for probe in probes if probe.long]
        self._part = max(PART, 4 * max((len(probe.plain) for probe in self._probes), default=0))
        self._index = ShingleIndex(self._probes)
        self._short: dict[str, set[int]] = {}  # by letters and signs of arithmetic: looked for as whole fields only
        for place in {p.item for p in probes} - {p.item for p in self._probes}:
            for key in self._field_keys("\n".join(items[place].fields.values())):
                self._short.setdefault(key, set()).add(place)
        self._longest = 2 * max(map(len, self._short), default=0)
        self._clean: set[bytes] = set()  # an experiment's rows are mostly those of the one before

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        """For each row, any JSON value: what it overlaps with, sealed items before shown ones; None where with nothing."""
        batch: list[tuple[bytes, list[str], set[int]]] = []
        size = 0
        for row in rows:
            texts = list(row_texts(row))
            key = row_key(texts)
            batch.append((key, *(([], set()) if key in self._clean else self._read(texts))))
            size += sum(map(len, batch[-1][1]))
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

    def _field_keys(self, text: str) -> set[str]:
        """What a short item is known by: its letters and signs in its readings, with shared sentences and without."""
        forms = {form for reading in readings(text) for form in (reading, self._own(reading))}
        return {key for form in forms if (key := with_signs(form))}

    def _own(self, text: str) -> str:
        return "\n".join(part for part in SENTENCE.split(text) if merged(letters(part)) not in self._shared)

    def _read(self, fields: Iterable[str]) -> tuple[list[str], set[int]]:
        """The letters of a row in its readings, in parts that overlap, and the short items that are its fields."""
        raw, bare, short = [], [], set[int]()
        for text in fields:
            forms = [letters(form) for form in readings(text)]
            raw.append(forms[0])
            bare.append(forms[-1])
            if 0 < len(forms[-1]) <= self._longest:
                short.update(*(self._short.get(key, ()) for key in self._field_keys(text)))
        texts = {BREAK.join(raw), BREAK.join(bare)}
        step = self._part // 2
        return [t[at : at + self._part] for t in texts for at in range(0, max(1, len(t) - step), step)], short

    def _batch(self, rows: Sequence[tuple[bytes, list[str], set[int]]]) -> Iterator[Hit | None]:
        found = [short for _, _, short in rows]
        parts = [(row, part) for row, (_, texts, _) in enumerate(rows) for part in texts]
        sizes = accumulate(len(part) for _, part in parts)
        for _, lot in groupby(zip(parts, sizes, strict=True), lambda pair: pair[1] // BATCH_SIZE):
            self._look([part for part, _ in lot], found)
        if len(self._clean) > REMEMBERED:
            self._clean.clear()
        self._clean.update(key for (key, _, _), items in zip(rows, found, strict=True) if not items)
        yield from map(self._hit_of, found)

    def _look(self, parts: Sequence[tuple[int, str]], found: Sequence[set[int]]) -> None:
        """Add the items in parts of texts to what was found in their rows."""
        texts = [merged(text) for _, text in parts]
        for at, probe in self._index.candidates(texts):
            row, plain = parts[at]
            if self._probes[probe].item not in found[row] and holds(plain, texts[at], self._probes[probe]):
                found[row].add(self._probes[probe].item)

    def _hit_of(self, items: set[int]) -> Hit | None:
        if not items:
            return None
        return hit_of(self._items[min(items, key=lambda i: (SPLITS.index(self._items[i].split), i))])


def row_key(texts: Sequence[str]) -> bytes:
    """What a row is remembered by: hash of all its texts and their borders."""
    sizes = ",".join(str(len(text)) for text in texts)
    return blake2b(f"{sizes}\n{''.join(texts)}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
