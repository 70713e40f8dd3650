"""Labels that the words of other rows speak against; standard library only, data scripts carry these functions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from tuneloop.core.text import normalise, tokens

Pair = tuple[str, str]


def unlikely(pairs: Sequence[Pair], folds: int, least: float) -> list[bool]:
    """For each (question, label): is the label less likely than `least` to a word model that learned from other rows?"""
    places = sorted(range(len(pairs)), key=lambda i: (normalise(pairs[i][0]), i))
    words = [frozenset(tokens(question)) for question, _ in pairs]
    verdict = [False] * len(pairs)
    for fold in range(folds):
        held = set(places[fold::folds])
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        totals: Counter[str] = Counter()
        for i in places:
            if i not in held:
                counts[pairs[i][1]].update(words[i])
                totals[pairs[i][1]] += 1
        for i in held:
            verdict[i] = likelihood(words[i], pairs[i][1], counts, totals) < least
    return verdict


def likelihood(words: frozenset[str], label: str, counts: dict[str, Counter[str]], totals: Counter[str]) -> float:
    """Probability of a label under naive Bayes; 1 for a label no other row has."""
    if label not in totals:
        return 1.0
    scores = {
        other: math.log(n) + sum(math.log((counts[other][w] + 0.2) / (n + 0.4)) for w in words)
        for other, n in totals.items()
    }
    top = max(scores.values())
    return math.exp(scores[label] - top) / sum(math.exp(s - top) for s in scores.values())
