"""How much two texts share: ROUGE-1, -2 and -L and BLEU of words and pairs of words, each from 0 to 1.

ROUGE as in Google's `rouge_score`, with its stemmer (`stemmed`) or without (`words`): F1. BLEU as in NLTK's `sentence_bleu`
with weights (0.5, 0.5) and smoothing method 1, over words and single signs. Linear in the reply's length.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

# Porter's stemmer (1980) with NLTK's additions: `rouge_score` cuts words so before it compares them.

Condition = Callable[[str], bool]
Rules = tuple[tuple[str, str], ...]
IRREGULAR = {
    "skies": "sky",
    "sky": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "howe": "howe",
}
IRREGULAR |= {word + end: word for word in ("inning", "outing", "canning") for end in ("", "s")}
IRREGULAR |= {word: word for word in ("proceed", "exceed", "succeed")}
PLURAL = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
LONG = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble")),
    *(("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate")),
    *(("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al")),
    *(("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful")),
)
MIDDLE = (("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""))
LAST = (
    *(
        "al",
        "ance",
        "ence",
        "er",
        "ic",
        "able",
        "ible",
        "ant",
        "ement",
        "ment",
        "ent",
        "ion",
        "ou",
        "ism",
        "ate",
        "iti",
    ),
    *("ous", "ive", "ize"),
)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a word in small letters."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (plural, past, final_y, long_ending, middle_ending, last_ending, final_e, final_l):
        word = step(word)
    return word


def plural(word: str) -> str:
    """Caresses, ponies, cats."""
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    return replaced(word, PLURAL, lambda _: True)


def past(word: str) -> str:
    """Agreed, plastered, motoring."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if measure(word[:-3]) else word
    end = next((end for end in ("ed", "ing") if word.endswith(end) and "v" in shape(word[: -len(end)])), "")
    return mended(word[: -len(end)]) if end else word


def mended(word: str) -> str:
    """Conflat(ed), hopp(ing), fil(ing)."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if doubled(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if measure(word) == 1 and short(word) else word


def final_y(word: str) -> str:
    """Happy."""
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and shape(word)[-2] == "c" else word


def long_ending(word: str) -> str:
    """Relational, operator, hopefulness."""
    if word.endswith("alli") and measure(word[:-4]):
        return long_ending(word[:-2])
    if word.endswith("logi") and not word.endswith(tuple(end for end, _ in LONG)):
        return word[:-1] if measure(word[:-3]) else word
    return replaced(word, LONG, lambda begin: measure(begin) > 0)


def middle_ending(word: str) -> str:
    """Triplicate, hopeful, goodness."""
    return replaced(word, MIDDLE, lambda begin: measure(begin) > 0)


def last_ending(word: str) -> str:
    """Revival, adoption, effective."""
    end = next((end for end in LAST if word.endswith(end)), "")
    begin = word[: len(word) - len(end)]
    fits = measure(begin) > 1 and (end != "ion" or begin.endswith(("s", "t")))
    return begin if end and fits else word


def final_e(word: str) -> str:
    """Probate, cease."""
    begin = word[:-1]
    gone = word.endswith("e") and (measure(begin) > 1 or (measure(begin) == 1 and not short(begin)))
    return begin if gone else word


def final_l(word: str) -> str:
    """Controll."""
    return word[:-1] if word.endswith("ll") and measure(word[:-1]) > 1 else word


def replaced(word: str, rules: Rules, fits: Condition) -> str:
    """By the first rule whose ending the word has, if what stands before it fits."""
    for end, other in rules:
        if word.endswith(end):
            begin = word[: len(word) - len(end)]
            return begin + other if fits(begin) else word
    return word


def shape(word: str) -> str:
    """A letter for each: c for a consonant, v for a vowel; y is a vowel after a consonant."""
    found: list[str] = []
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and found[-1:] == ["c"])
        found.append("v" if vowel else "c")
    return "".join(found)


def measure(word: str) -> int:
    """How often a consonant follows a vowel."""
    return shape(word).count("vc")


def doubled(word: str) -> bool:
    """Ends with the same consonant twice."""
    return word[-2:-1] == word[-1:] != "" and shape(word)[-1] == "c"


def short(word: str) -> bool:
    """Ends like hop: consonant, vowel, and a consonant that is none of w, x, y; or is like "at"."""
    return (shape(word)[-3:] == "cvc" and word[-1] not in "wxy") or shape(word) == "vc"


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
    length_penalty = 1.0 if len(found) > len(wanted) else math.exp(1 - len(wanted) / len(found))
    # other machines compute exp with another last digit, and verdicts are compared
    return round(length_penalty * math.sqrt(math.prod(precisions)), 12)


def signs(text: str) -> list[str]:
    """Words and single signs in small letters."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def ngrams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each run of `n` tokens stands there."""
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def f1(hits: int, wanted: int, found: int) -> float:
    """Twice the hits over both lengths together; 0 without hits."""
    return 2 * hits / (wanted + found) if hits else 0.0
