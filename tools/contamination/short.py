"""Items of a few words: found only where they are a text, a line or a sentence of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tuneloop.tools.contamination.frames import Frame, frame, unframed
from tuneloop.tools.likeness.plain import BREAK, tokens

FEW = 6
ROOM = 8  # a text so many times as long as all that is known may still be one in words
MARK = r"\[/?[A-Z]+\]|</?s>|<\|[^|<>]*\|>"  # of a chat template
LINES = (re.compile(rf"(?<=[.?!。？！])\s*(?=\S)|\n|{MARK}"), re.compile(rf"(?<=[.?!。？！])\s+(?=\S)|\n\s*\n|{MARK}"))
ASKED = frozenset(("question", "q", "problem", "task", "input", "user", "human", "instruction"))


class Short:
    """The short items of some benchmarks, without the instruction that all items of their benchmark share."""

    def __init__(self, benchmarks: Iterable[Mapping[int, Sequence[str]]]) -> None:
        """For each benchmark its items' tokens by number."""
        self.items: set[int] = set()
        self._found: dict[str, list[int]] = {}
        self._frames: list[Frame] = [([], [])]
        self._longest = 0
        for whole in benchmarks:
            bare = [(number, [t for t in words if t != BREAK]) for number, words in whole.items()]
            around = frame([words for _, words in bare])
            self._frames += [around] if any(around) else []
            for number, words in bare:
                own = unframed(words, around)
                if len(own) < FEW:
                    self.items.add(number)
                    if own:
                        self._found.setdefault(asked(own), []).append(number)
                        self._longest = max(self._longest, ROOM * len(" ".join(words)))

    def held_by(self, texts: Sequence[str]) -> list[int]:
        """The items that a row's texts hold."""
        if not self._found:
            return []
        parts = {part for text in texts for part in _parts(text) if len(part) <= self._longest}
        return [n for part in parts for around in self._frames for n in self._named(part, around)]

    def _named(self, text: str, around: Frame) -> list[int]:
        words = unframed(tokens(text), around)
        return self._found.get(asked(words), []) if words else []


def _parts(text: str) -> Iterator[str]:
    yield text
    for line in LINES:
        yield from line.split(text)


def asked(words: Sequence[str]) -> str:
    """As one text, without the `=` that asks for the answer and the `Question:` before it."""
    start = int(words[0] in ASKED and len(words) > 1)
    return " ".join(words[start : -1 if words[-1] == "=" else None])
