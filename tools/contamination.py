"""Which training rows ask what the benchmark asks: exact copies in any dress, and near copies.

Texts are compared as tokens: words without case, numbers, signs of arithmetic; punctuation and white space do not
count. An overlap is

- a row that holds a whole item (a short item: that is nothing but the item), or
- a row with the item's numbers in the item's order and 80 % of the three-token runs that make the item special.

Runs that many items share are the benchmark's own phrases ("how many ... does ... have now") and say nothing; what all
items begin or end with (the common instruction) is left out. So two word problems made from one template are different
as long as their numbers or their things are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIGNS = "\u3040-\u30ff\u3400-\u9fff"  # of Japanese and Chinese, which put no blanks between words
TOKEN = re.compile(rf"\d+(?:\.\d+)?|[{SIGNS}]|[^\W\d_{SIGNS}]+|[+*/×÷=<>^%√∫∑]|-(?=\s?\d)")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
RUN = 3
SHORT = 6
SIMILAR = 0.8
PHRASE_SHARE, PHRASE_COUNT = 0.02, 3
ENOUGH_FOR_A_FRAME = 8

Run = tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    """One item, prepared: its tokens and numbers as spaced text, and the runs that make it special."""

    split: str
    text: str
    numbers: str
    special: frozenset[Run]


class Guard:
    """Knows the items of a benchmark's splits; tells the split a text overlaps with, never the item."""

    def __init__(self, asked: Mapping[str, Sequence[str]]) -> None:
        """`asked`: prompts by split. An earlier split wins when a text overlaps with several."""
        whole = [(split, tokens(text)) for split, texts in asked.items() for text in texts]
        whole = [(split, words) for split, words in whole if words]
        self._frame = frame([words for _, words in whole])
        bare = [(split, unframed(words, self._frame)) for split, words in whole]
        counts = Counter(run for _, words in bare for run in runs(words))
        limit = max(PHRASE_COUNT, PHRASE_SHARE * len(bare))
        self._short: dict[str, str] = {}
        self._items: list[_Item] = []
        self._anchors: dict[Run, list[int]] = defaultdict(list)
        self._special: dict[Run, list[int]] = defaultdict(list)
        for split, words in bare:
            if len(words) < SHORT:
                self._short.setdefault(question(words), split)
            else:
                self._add(split, words, counts, limit)

    def _add(self, split: str, words: list[str], counts: Counter[Run], limit: float) -> None:
        found = runs(words)
        special = frozenset(run for run in found if counts[run] <= limit)
        number = len(self._items)
        self._items.append(_Item(split, spaced(words), numbers(words), special))
        self._anchors[min(found, key=lambda run: (counts[run], run))].append(number)
        for run in special:
            self._special[run].append(number)

    def overlaps(self, text: str) -> str | None:
        """The split that a training row's question overlaps with; None when there is no overlap."""
        words = tokens(text)
        bare = unframed(words, self._frame)
        if (short := self._short.get(question(bare))) is not None:
            return short
        found = runs(words) | runs(bare)
        hits = {number for run in found & self._anchors.keys() for number in self._anchors[run]}
        near = Counter(number for run in found & self._special.keys() for number in self._special[run])
        row, row_numbers = spaced(words), numbers(words)
        copies = [n for n in hits if self._items[n].text in row]
        copies += [n for n, count in near.items() if self._is_near(self._items[n], count, row_numbers)]
        return self._items[min(copies)].split if copies else None

    @staticmethod
    def _is_near(item: _Item, shared: int, row_numbers: str) -> bool:
        enough = len(item.special) >= RUN and shared >= SIMILAR * len(item.special)
        return enough and item.numbers in row_numbers


def tokens(text: str) -> list[str]:
    """Words in small letters, numbers without thousands commas, signs of arithmetic."""
    plain = THOUSANDS.sub("", unicodedata.normalize("NFKC", text).replace("−", "-"))
    return TOKEN.findall(plain.casefold())


def runs(words: Sequence[str]) -> set[Run]:
    """All runs of three tokens."""
    return set(zip(words, words[1:], words[2:], strict=False))


def spaced(words: Sequence[str]) -> str:
    """Tokens as one text, a blank around each, so that a part is found at token borders only."""
    return f" {' '.join(words)} "


def question(words: Sequence[str]) -> str:
    """A short item without the `=` that asks for the answer."""
    return spaced(words[:-1] if words[-1:] == ["="] else words)


def numbers(words: Sequence[str]) -> str:
    """The numbers among the tokens, in order."""
    return spaced([word for word in words if word[0].isdigit()])


def frame(texts: Sequence[list[str]]) -> tuple[list[str], list[str]]:
    """Tokens that all texts begin with, and end with: the common instruction. None for a handful of texts."""
    if len(texts) < ENOUGH_FOR_A_FRAME:
        return [], []
    first, last = common(texts), common([words[::-1] for words in texts])
    return first, last[::-1]


def common(texts: Sequence[list[str]]) -> list[str]:
    """The longest common beginning."""
    low, high = min(texts), max(texts)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]


def unframed(words: list[str], around: tuple[list[str], list[str]]) -> list[str]:
    """Without the common beginning and end, where they are there and something is left between them."""
    first, last = around
    start = len(first) if first and words[: len(first)] == first else 0
    stop = len(words) - len(last) if last and words[-len(last) :] == last else len(words)
    return words[start:stop] if start < stop else words
