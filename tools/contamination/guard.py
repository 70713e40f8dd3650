"""Looks for the items of all splits of all benchmarks of a run in training rows, row by row, in bounded memory.

An overlap is a row that holds an item exactly, but for its dress (case, white space, LaTeX, Unicode forms, digits of any
script, number words, order of fields and options), or nearly: the same numbers in the same places and nearly the same
words. A short item must be a text, a line or a sentence of its own. One template with other numbers, or a question with
other facts, is no overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tuneloop.core.files import digest
from tuneloop.tools.contamination.matching import TokenizedRow, token_runs, two_and_three_runs
from tuneloop.tools.contamination.normalize import BREAK, normalized_tokens, tokens_with_breaks
from tuneloop.tools.contamination.probe_index import Frame, ProbeIndex, common_frame, strip_frame
from tuneloop.tools.contamination.probes import Hit, KnownItem, hit_of, row_texts

# Items of a few words: found only where they are a text, a line or a sentence of their own.

FEW = 6
ROOM = 8  # a text so many times as long as all that is known may still be one in words
MARK = r"\[/?[A-Z]+\]|</?s>|<\|[^|<>]*\|>"  # of a chat template
LINES = (re.compile(rf"(?<=[.?!。？！])\s*(?=\S)|\n|{MARK}"), re.compile(rf"(?<=[.?!。？！])\s+(?=\S)|\n\s*\n|{MARK}"))
ASKED = frozenset(("question", "q", "problem", "task", "input", "user", "human", "instruction"))


class ShortItems:
    """The short items of some benchmarks, without the instruction that all items of their benchmark share."""

    def __init__(self, benchmarks: Iterable[Mapping[int, Sequence[str]]]) -> None:
        """For each benchmark its items' tokens by number."""
        self.items: set[int] = set()
        self._found: dict[str, list[int]] = {}
        self._frames: list[Frame] = [([], [])]
        self._longest = 0
        for whole in benchmarks:
            bare = [(number, [t for t in words if t != BREAK]) for number, words in whole.items()]
            around = common_frame([words for _, words in bare])
            self._frames += [around] if any(around) else []
            for number, words in bare:
                own = strip_frame(words, around)
                if len(own) < FEW:
                    self.items.add(number)
                    if own:
                        self._found.setdefault(plain_question(own), []).append(number)
                        self._longest = max(self._longest, ROOM * len(" ".join(words)))

    def match(self, texts: Sequence[str]) -> list[int]:
        """The items that a row's texts hold."""
        if not self._found:
            return []
        parts = {part for text in texts for part in _parts(text) if len(part) <= self._longest}
        return [n for part in parts for around in self._frames for n in self._named(part, around)]

    def _named(self, text: str, around: Frame) -> list[int]:
        words = strip_frame(normalized_tokens(text), around)
        return self._found.get(plain_question(words), []) if words else []


def _parts(text: str) -> Iterator[str]:
    yield text
    for line in LINES:
        yield from line.split(text)


def plain_question(words: Sequence[str]) -> str:
    """As one text, without the `=` that asks for the answer and the `Question:` before it."""
    start = int(words[0] in ASKED and len(words) > 1)
    return " ".join(words[start : -1 if words[-1] == "=" else None])


BATCH = 512
BATCH_SIZE = 1 << 20  # characters, from which a batch is not made longer
SPLITS = ("unseen", "test", "validation")  # a row with items of several is of the first: that is quoted the least


class Guard:
    """Knows the items; tells the benchmark and split that a row overlaps with, and of validation items shown which."""

    def __init__(self, items: Sequence[KnownItem]) -> None:
        self._items = items
        self._probe_index = ProbeIndex(items)
        self._short = ShortItems(self._probe_index.benchmarks())
        self._index = self._probe_index.index(without=self._short.items)

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        """For each row, any JSON value: what it overlaps with, sealed items before shown ones; None where with nothing."""
        batch: list[list[str]] = []
        size = 0
        for row in rows:
            batch.append(list(row_texts(row)))
            size += sum(map(len, batch[-1]))
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

    def _batch(self, rows: Sequence[list[str]]) -> Iterator[Hit | None]:
        tokens = [_tokens(texts) for texts in rows]
        found = [self._short.match(texts) for texts in rows]
        ids, owners = self._probe_index.number_tokens(tokens)
        pairs = token_runs(ids, owners, 2)
        starts = np.searchsorted(pairs.texts, np.arange(len(rows) + 1))
        read: dict[int, TokenizedRow] = {}
        for row, probe in self._index.candidates(two_and_three_runs(pairs, token_runs(ids, owners, 3))):
            if row not in read:
                read[row] = TokenizedRow(tokens[row], pairs.keys[starts[row] : starts[row + 1]])
            if self._probe_index.weighed_probe(probe).match(read[row]):
                found[row].append(self._probe_index.item(probe))
        yield from map(self._hits_of, found)

    def _hits_of(self, items: Sequence[int]) -> Hit | None:
        if not items:
            return None
        return hit_of(self._items[min(items, key=lambda i: (SPLITS.index(self._items[i].split), i))])


def _tokens(texts: Sequence[str]) -> list[str]:
    tokens: list[str] = []
    for text in texts:
        tokens += tokens_with_breaks(text)
        tokens.append(BREAK)
    return tokens
