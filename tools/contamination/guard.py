"""Looks for the items of all splits of all benchmarks of a run in training rows, row by row, in bounded memory.

An overlap is a row that holds an item exactly, but for its dress (case, white space, LaTeX, Unicode forms, digits of any
script, number words, order of fields and options), or nearly: the same numbers in the same places and nearly the same
words. A short item must be a text, a line or a sentence of its own. One template with other numbers, or a question with
other facts, is no overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from tuneloop.core.files import digest
from tuneloop.tools.contamination.evidence import Row
from tuneloop.tools.contamination.index import joined, runs
from tuneloop.tools.contamination.known import Hit, Known, hit
from tuneloop.tools.contamination.rows import texts_of
from tuneloop.tools.contamination.short import Short
from tuneloop.tools.contamination.sought import Sought
from tuneloop.tools.likeness.plain import BREAK, broken

BATCH = 512
MOST_TOKENS = 20_000  # of a row; what lies behind is not looked at
SPLITS = ("unseen", "test", "validation")  # a row with items of several is of the first: that is quoted the least


class Guard:
    """Knows the items; tells the benchmark and split that a row overlaps with, and of validation items shown which."""

    def __init__(self, items: Sequence[Known]) -> None:
        self._items = items
        self._sought = Sought(items)
        self._short = Short(self._sought.benchmarks())
        self._index = self._sought.index(without=self._short.items)

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        """For each row, any JSON value: what it overlaps with, sealed items before shown ones; None where with nothing."""
        rows = iter(rows)
        while batch := list(islice(rows, BATCH)):
            yield from self._batch([list(texts_of(row)) for row in batch])

    @cached_property
    def identity(self) -> str:
        """Hash of what may be shown of which item: what was made with another guard is not to be shown with this one."""
        return digest(*(f"{one.benchmark} {one.split} {one.id}" for one in self._items))

    def overlaps(self, text: str) -> str | None:
        """The split that one text overlaps with; None where with none."""
        found = next(self.find([text]))
        return None if found is None else found.split

    def _batch(self, rows: Sequence[list[str]]) -> Iterator[Hit | None]:
        tokens = [_tokens(texts) for texts in rows]
        found = [self._short.held_by(texts) for texts in rows]
        ids, owners = self._sought.numbered(tokens)
        pairs = runs(ids, owners, 2)
        starts = np.searchsorted(pairs.texts, np.arange(len(rows) + 1))
        read: dict[int, Row] = {}
        for row, probe in self._index.candidates(joined(pairs, runs(ids, owners, 3))):
            if row not in read:
                read[row] = Row(tokens[row], pairs.keys[starts[row] : starts[row + 1]])
            if self._sought.probed(probe).held_by(read[row]):
                found[row].append(self._sought.item(probe))
        yield from map(self._told, found)

    def _told(self, items: Sequence[int]) -> Hit | None:
        if not items:
            return None
        return hit(self._items[min(items, key=lambda i: (SPLITS.index(self._items[i].split), i))])


def _tokens(texts: Sequence[str]) -> list[str]:
    tokens: list[str] = []
    for text in texts:
        tokens += broken(text)
        tokens.append(BREAK)
        if len(tokens) > MOST_TOKENS:
            break
    return tokens[:MOST_TOKENS]
