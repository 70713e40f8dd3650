"""Words written with one slip: two letters swapped, one missing, doubled or mistaken; never a slip that makes a word's ending."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

SHORTEST, LONG = 5, 7  # letters: of a word that is mended, of one with a mistaken letter
# Words that the rules hang on, none of which is near another word (as below is to blow). None that removes, publishes or
# spends: those are never guessed.
COMMON = (
    "after", "always", "another", "approve", "approval", "before", "between", "continue", "decrease", "double",
    "experiment", "experiments", "finish", "increase", "instead", "maximum", "minimum", "never", "pause",
    "source", "sources", "status", "training", "without",
)  # fmt: skip


def near(said: str, right: str) -> bool:
    """Whether it is the word with one slip inside; the first letter is right, and the last, unless the last two changed places."""
    if said == right or len(right) < SHORTEST or said[:1] != right[:1] or abs(len(said) - len(right)) > 1:
        return False
    same = next((i for i, (a, b) in enumerate(zip(said, right, strict=False)) if a != b), min(len(said), len(right)))
    mine, its = said[same:], right[same:]
    if len(said) == len(right):
        swapped = mine[:2] == its[1::-1] and mine[2:] == its[2:]
        return swapped or (len(right) >= LONG and len(mine) > 1 and mine[1:] == its[1:])
    longer, shorter = (mine, its) if len(mine) > len(its) else (its, mine)
    return len(shorter) > 0 and longer[1:] == shorter


def mended(text: str) -> str:
    """The text with slips in common words mended."""
    return re.sub(r"\b[a-z]{4,}\b", lambda word: word[0] if word[0] in COMMON else _only(word[0], COMMON), text)


def _only(word: str, right: Iterable[str]) -> str:
    found = [one for one in right if near(word, one)]
    return found[0] if len(found) == 1 else word


def name_near(phrase: str, names: Iterable[str]) -> str | None:
    """The one name whose words are these but for a slip in one of them; None: none, or several."""
    words = phrase.split()
    found = {" ".join(name) for name in _as_long(frozenset(names)).get(len(words), ()) if _close(words, name)}
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=4)
def _as_long(names: frozenset[str]) -> dict[int, list[list[str]]]:
    """Names in words, by how many."""
    found: dict[int, list[list[str]]] = {}
    for name in sorted(names):
        found.setdefault(len(name.split()), []).append(name.split())
    return found


def _close(said: list[str], right: list[str]) -> bool:
    wrong = [(a, b) for a, b in zip(said, right, strict=True) if a != b]
    return len(wrong) == 1 and len(wrong[0][0]) >= SHORTEST and near(*wrong[0])
