"""Porter's stemmer (1980) with NLTK's additions: `rouge_score` cuts words so before it compares them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

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
