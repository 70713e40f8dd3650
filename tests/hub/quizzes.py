"""Made-up questions with options; which one is right follows from the question."""

from __future__ import annotations

from dataclasses import dataclass

LETTERS = "ABCDE"


@dataclass(frozen=True)
class Quiz:
    """A question, its options, and the number of the right one, from 0."""

    question: str
    options: tuple[str, ...]
    right: int


def english(topic: str, k: int, options: int = 4) -> Quiz:
    """Sums, with other numbers as distractors."""
    more = sum(map(ord, topic)) % 89
    total = 3 * k + 5 + more
    right = (k * 7 + len(topic)) % options
    values = tuple(f"{total + 2 * (i - right)} units of {topic}" for i in range(options))
    return Quiz(f"In {topic}, what do {k + 2} units and {2 * k + 3 + more} units make together?", values, right)


def chinese(topic: str, k: int) -> Quiz:
    """The same in Chinese."""
    more = sum(map(ord, topic)) % 83
    total = 4 * k + 9 + more
    right = (k * 3 + len(topic)) % 4
    values = tuple(f"{total + 3 * (i - right)}元" for i in range(4))
    return Quiz(f"在{topic}中，{k + 4}元加上{3 * k + 5 + more}元，一共是多少？", values, right)
