"""Reads misspelt words as known ones: at most one edit in short words, two in long ones; deterministic and quick."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

SHORTEST, LONG = 4, 7


class Speller:
    """`known` words are right as they are; misspelt ones are read as one of `targets`, the first of equals."""

    def __init__(self, targets: Iterable[str], known: Iterable[str]) -> None:
        self.targets = {word: place for place, word in enumerate(dict.fromkeys(targets))}
        self.known = frozenset(known) | self.targets.keys()
        self._by_rest: dict[str, list[str]] = defaultdict(list)
        for word in self.targets:
            for rest in rests(word):
                self._by_rest[rest].append(word)

    def read(self, word: str) -> str:
        """The word, or what was probably meant."""
        if word in self.known or len(word) < SHORTEST or not word.isascii() or not word.isalpha():
            return word
        near = {target for rest in rests(word) for target in self._by_rest.get(rest, ())}
        most = 2 if len(word) >= LONG else 1
        alike = [target for target in near if target[0] == word[0] and abs(len(target) - len(word)) <= most]
        found = [(edits(word, target), self.targets[target], target) for target in alike]
        return min((item for item in found if item[0] <= most), default=(0, 0, word))[2]


def rests(word: str) -> Iterator[str]:
    """The word, and the word without one letter, or without two when it is long."""
    yield word
    shorter = {word[:i] + word[i + 1 :] for i in range(len(word))} if len(word) >= SHORTEST else set()
    yield from shorter
    if len(word) >= LONG:
        yield from {rest[:i] + rest[i + 1 :] for rest in shorter for i in range(len(rest))}


def edits(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that turn one word into the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row, older = row, [i], before
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        before = last
    return row[-1]
