"""Labels in other words: which of the benchmark's labels a source's codes (`0`, `Payments`) stand for, by their questions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from tuneloop.core.text import tokens
from tuneloop.tools.profiling.likeness import Target

ROWS_EACH = 150
ITEMS_EACH = 3


def find_codes(values: Sequence[str], questions: Sequence[str], target: Target) -> dict[str, str]:
    """Code → label where each code's questions speak like those of one label and no two codes like the same; else {}."""
    groups: dict[str, list[str]] = defaultdict(list)
    for value, question in zip(values, questions, strict=True):
        if value and question:
            groups[value].append(question)
    labels = Counter(target.answers)
    if not 2 <= len(groups) <= len(labels) or min(labels.values()) < ITEMS_EACH or len(values) < 5 * len(groups):
        return {}
    model = word_model(target)
    scores = {code: label_scores(asked[:ROWS_EACH], model) for code, asked in groups.items()}
    best = {code: max(found, key=lambda label: found[label]) for code, found in scores.items()}
    return dict(sorted(best.items())) if len(set(best.values())) == len(best) else {}


def word_model(target: Target) -> dict[str, tuple[Counter[str], int]]:
    """Words of each label's items, and how many items there are."""
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for text, answer in zip(target.texts[""], target.answers, strict=True):
        words[answer].update(set(tokens(text)))
    sizes = Counter(target.answers)
    return {label: (counts, sizes[label]) for label, counts in words.items()}


def label_scores(questions: Sequence[str], model: dict[str, tuple[Counter[str], int]]) -> dict[str, float]:
    """How well each label explains the words of the questions."""
    held = Counter(word for question in questions for word in set(tokens(question)))
    return {
        label: sum(n * math.log((counts[word] + 0.3) / (size + 0.6)) for word, n in held.items())
        for label, (counts, size) in model.items()
    }
