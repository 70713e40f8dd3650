"""How much two texts share: ROUGE-1, -2 and -L and BLEU of words and pairs of words, each from 0 to 1.

ROUGE as in Google's `rouge_score`, with its stemmer (`stemmed`) or without (`words`): F1. BLEU as in NLTK's `sentence_bleu`
with weights (0.5, 0.5) and smoothing method 1, over words and single signs. Linear in the reply's length.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from ._stems import stem

EPSILON = 0.1  # what smoothing method 1 puts in place of no match at all


def words(text: str) -> list[str]:
    """Runs of a-z and 0-9 in small letters."""
    return re.findall(r"[a-z0-9]+", text.lower())


def stemmed(text: str) -> list[str]:
    """The same, and words of more than three letters without their endings."""
    return [stem(word) if len(word) > 3 else word for word in words(text)]


def rouge_n(n: int, reference: list[str], reply: list[str]) -> float:
    """F1 of runs of `n` words, with repetition."""
    wanted, found = ngrams(reference, n), ngrams(reply, n)
    return f1((wanted & found).total(), wanted.total(), found.total())


def rouge_l(reference: list[str], reply: list[str]) -> float:
    """F1 of the longest common subsequence of words."""
    return f1(common(reference, reply), len(reference), len(reply))


def common(wanted: list[str], found: list[str]) -> int:
    """Length of the longest common subsequence; a row of the table is one number, a bit a word (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for i, word in enumerate(wanted):
        places[word] = places.get(word, 0) | 1 << i
    everything = (1 << len(wanted)) - 1
    row = everything
    for word in found:
        matched = row & places.get(word, 0)
        row = (row + matched | row - matched) & everything
    return len(wanted) - row.bit_count()


def bleu(reference: str, reply: str) -> float:
    """Geometric mean of the precision of words and of pairs of them, less when the reply is shorter."""
    wanted, found = signs(reference), signs(reply)
    counts = [(ngrams(wanted, n), ngrams(found, n)) for n in (1, 2)]
    hits = [(right & given).total() for right, given in counts]
    if not hits[0]:
        return 0.0
    precisions = [(hit or EPSILON) / max(1, given.total()) for hit, (_, given) in zip(hits, counts, strict=True)]
    brevity = 1.0 if len(found) > len(wanted) else math.exp(1 - len(wanted) / len(found))
    # other machines compute exp with another last digit, and verdicts are compared
    return round(brevity * math.sqrt(math.prod(precisions)), 12)


def signs(text: str) -> list[str]:
    """Words and single signs in small letters."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def ngrams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each run of `n` tokens stands there."""
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def f1(hits: int, wanted: int, found: int) -> float:
    """Twice the hits over both lengths together; 0 without hits."""
    return 2 * hits / (wanted + found) if hits else 0.0
