"""Numbers however they are written: in words of some languages, in Chinese numerals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

# From zero on; `-` where a word says something else too.
WORDS = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
    "de": "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn "
    "siebzehn achtzehn neunzehn",
    "fr": "zero - deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez - doce trece catorce quince dieciseis diecisiete "
    "dieciocho diecinueve",
    "ru": "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать "
    "четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать",
    "hi": "शून्य एक दो तीन चार पाँच छह सात आठ नौ दस",
    "ar": "صفر واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
}
TENS_OF = (
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
    "vingt trente quarante cinquante soixante",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
)
SCALES = {"hundred": 100, "hundert": 100, "thousand": 1000, "tausend": 1000, "million": 10**6, "billion": 10**9}
JOINS = frozenset(("and", "et", "y"))
CHINESE = {c: n % 10 for n, c in enumerate("零一二三四五六七八九〇壹贰叁肆伍陆柒捌玖")} | {"两": 2, "兩": 2}
POWERS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
NUMERAL = re.compile(f"[{''.join((*CHINESE, *POWERS, *MYRIADS))}]+")
SCALED = re.compile(f"(\\d+(?:\\.\\d+)?)([{''.join(MYRIADS)}])")
LONGEST = 18


def folded(word: str) -> str:
    """As `plain` writes words: no accents, small letters; vowel signs of Indic scripts stay."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFKC", "".join(c for c in plain if unicodedata.category(c) != "Mn" or c >= "\u0900"))


UNITS = {folded(w): value for words in WORDS.values() for value, w in enumerate(words.split()) if w != "-"}
TENS = {folded(w): 10 * n for words in TENS_OF for n, w in enumerate(words.split(), 2)}
UNITS |= {
    f"{'ein' if unit == 'eins' else unit}und{ten}": 10 * n + i
    for n, ten in enumerate(TENS_OF[1].split(), 2)
    for i, unit in enumerate(WORDS["de"].split()[:10])
    if i
}
NAMES = frozenset((*UNITS, *TENS))


def chinese(text: str) -> str:
    """Chinese numerals as figures, `3万` too."""
    text = SCALED.sub(lambda m: f"{float(m[1]) * MYRIADS[m[2]]:.0f}" if len(m[1]) < LONGEST else m[0], text)
    return NUMERAL.sub(lambda m: _value(m[0]), text)


def _value(numeral: str) -> str:
    if all(c in CHINESE for c in numeral):
        return "".join(str(CHINESE[c]) for c in numeral)
    total, section, digit = 0, 0, 0
    for c in numeral:
        if c in CHINESE:
            digit = CHINESE[c]
        elif c in POWERS:
            section += (digit or 1) * POWERS[c]
            digit = 0
        else:
            total = (total + section + digit or 1) * MYRIADS[c]
            section = digit = 0
    return str(total + section + digit)


def in_figures(words: Sequence[str]) -> list[str]:
    """Tokens with number words as figures: `twenty three` is 23, `2 million` is 2000000."""
    return list(_in_figures(words))


def _in_figures(words: Sequence[str]) -> Iterator[str]:
    at, end = 0, len(words)
    while at < end:
        word = words[at]
        if word in NAMES or (word.isdecimal() and at + 1 < end and words[at + 1] in SCALES and len(word) < LONGEST):
            value, at = _number(words, at)
            yield str(value)
        else:
            yield word
            at += 1


def _number(words: Sequence[str], at: int) -> tuple[int, int]:
    """The number that begins at `at`, and the place behind it."""
    total, section, last = 0, 0, 0
    while at < len(words):
        word = words[at]
        if not last and word.isdecimal():
            section, last = int(word), 1
        elif (word in UNITS and (not last or last == 100 or (last == 10 and UNITS[word] < 10))) or (
            word in TENS and (not last or last == 100)
        ):
            section += UNITS.get(word, 0) or TENS.get(word, 0)
            last = 10 if word in TENS else 1
        elif word in SCALES and last:
            scale = SCALES[word]
            if scale == 100:
                section *= 100
            else:
                total, section = total + section * scale, 0
            last = 100
        elif not (word in JOINS and _goes_on(words, at, last)):
            break
        at += 1
    return total + section, at


def _goes_on(words: Sequence[str], at: int, last: int) -> bool:
    """Whether `and` stands inside a number: `two hundred and five`, `treinta y cinco`."""
    after = words[at + 1] if at + 1 < len(words) else ""
    return (last == 100 and after in NAMES) or (last == 10 and words[at] != "and" and 0 < UNITS.get(after, 0) < 10)
