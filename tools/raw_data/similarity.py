"""How much a column of texts resembles the benchmark's prompts and answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tuneloop.core.profile import BenchmarkFacts
from tuneloop.core.text import final_answer, label_in, normalise, number_in, plain_number, tokens

MOST_TEXTS = 300


def word_centroid(texts: Sequence[str]) -> dict[str, float]:
    """In how many of the texts each word occurs, as shares; numbers left out."""
    some = texts[:: max(1, len(texts) // MOST_TEXTS)][:MOST_TEXTS]
    counts = Counter(word for text in some for word in set(tokens(text[:4000])) if word != "#")
    return {word: count / len(some) for word, count in counts.items()} if some else {}


def cosine(a: dict[str, float], b: dict[str, float]) -> float:
    """0 to 1."""
    dot = sum(v * b[k] for k, v in a.items() if k in b)
    size = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
    return dot / size if size else 0.0


@dataclass(frozen=True)
class BenchmarkTarget:
    """The benchmark's side of every comparison: `texts` by item field ("" is the whole prompt), answers, and its facts."""

    facts: BenchmarkFacts
    texts: dict[str, list[str]]
    answers: list[str]

    @cached_property
    def centroids(self) -> dict[str, dict[str, float]]:
        """Of the texts of each field."""
        return {name: word_centroid(texts) for name, texts in self.texts.items()}

    @cached_property
    def prompts(self) -> frozenset[str]:
        """Normalised prompts, without what all of them share."""
        names = [name for name in self.texts if name]
        joined = (" ".join(parts) for parts in zip(*(self.texts[name] for name in names), strict=True)) if names else ()
        return frozenset(normalise(text) for text in (*self.texts[""], *joined))

    @cached_property
    def labels(self) -> frozenset[str]:
        """Normalised labels."""
        return frozenset(normalise(label) or label for label in self.facts.labels)

    def similarity(self, texts: Sequence[str], field: str = "") -> float:
        """Cosine of the words, a little less where lengths differ much."""
        if not texts:
            return 0.0
        there = self.texts[field] or [""]
        a, b = (sum(map(len, side)) / len(side) + 1 for side in (texts, there))
        return cosine(word_centroid(texts), self.centroids[field]) * float((min(a, b) / max(a, b)) ** 0.15)

    def is_answer(self, text: str) -> bool:
        """Whether a bare text has the shape of an answer."""
        shape = self.facts.answer_shape
        if shape == "letter":
            return len(text.strip(" ().")) == 1 and text.strip(" ().").upper() in "ABCDEFGHIJ"
        if shape == "label":
            return (normalise(text) or text) in self.labels or (
                len(text) < 6 and label_in(text, self.facts.labels) is not None
            )
        if shape == "text":
            return 0 < len(text) <= 4 * max(map(len, self.facts.answer_examples), default=40)
        plain = plain_number(text) or (
            number_in(text, last=True) if len(tokens(text)) <= 3 and "=" not in text else None
        )
        return plain is not None and self.in_range(plain)

    def in_range(self, plain: str) -> bool:
        """Whether a number could be an answer: whole where all are, not far outside."""
        low, high = self.facts.answer_low or 0.0, self.facts.answer_high or 0.0
        room = 2 * max(abs(low), abs(high), 10.0)
        whole = self.facts.answer_shape == "number" or "." not in plain
        return whole and low - room <= float(plain) <= high + room

    def answer(self, solution: str) -> str | None:
        """The final answer of a solution, if it has one of the right shape."""
        if self.facts.answer_shape == "label":
            return label_in(solution, self.facts.labels)
        found = final_answer(solution, self.facts.answer_shape)
        if found is None or self.facts.answer_shape in ("letter", "text"):
            return found
        return found if self.is_answer(found) else None
