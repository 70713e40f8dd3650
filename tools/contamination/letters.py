"""A text as its letters and digits alone: NFKC, without case and accents, look-alike letters merged; with and without markup."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator

# What looks alike, in capitals or not: one class is one letter. Other Latin letters are read by their Unicode names.
ALIKE = {
    "a": "аαɑᎪ", "b": "вβьƅᏴ", "c": "сσᏟց", "d": "ԁᎠժ", "e": "еεєҽᎬ", "g": "ɡᏀ", "j": "јϳᎫ", "k": "кκᏦ", "m": "мμᎷ",
    "n": "hvнηνпһոհѵᎻᏙ", "0": "oоοօ", "1": "ilіιӏוᏞ", "p": "рρᏢ", "q": "ԛզ", "r": "гᎡ", "s": "ѕᏚտ", "t": "тτᎢ",
    "u": "yуυγүսᎩ", "w": "ԝωшѡᎳ", "x": "хχ", "z": "ζᏃ",
}  # fmt: skip
MERGED = {ord(char): one for one, chars in ALIKE.items() for char in chars}
NAMED = re.compile(r"(?:LATIN|REGIONAL INDICATOR SYMBOL)\b.* LETTER (?:.* )?([A-Z])(?: WITH .*)?$")
GAP = re.compile(r"([\W_]+)")
DASHES, SIGNS = str.maketrans("−–×·⋅∙÷∕⁄", "--****///"), "+*/^%<>-"
MARKUP = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,9}(?:\s[^<>]*)?/?>|\\(?:begin|end)\s*\{\w+\*?\}|\\[A-Za-z]+")


class _Folded(dict[int, str | None]):
    """The letter or digit that a sign is; nothing for all other signs. Filled as signs occur."""

    def __missing__(self, code: int) -> str | None:
        sign = chr(code)
        parts = unicodedata.normalize("NFKD", sign)
        if named := NAMED.match(unicodedata.name(sign, "")):
            found: str | None = named[1].lower()
        elif sign.isdecimal():
            found = str(unicodedata.decimal(sign))
        elif not sign.isalnum():
            found = None
        else:
            found = parts[0] if all(unicodedata.category(part) == "Mn" for part in parts[1:]) else sign
        self[code] = found
        return found


FOLDED = _Folded()


def letters(text: str) -> str:
    """Letters and digits, digits as 0 to 9."""
    return unicodedata.normalize("NFKC", text).casefold().translate(FOLDED)


def merged(plain: str) -> str:
    """What `letters` returned with look-alikes as one, sign by sign: O and 0, l and 1 too."""
    return plain.translate(MERGED)


def with_signs(text: str) -> str:
    """The merged letters with the sign of arithmetic that stands between two numbers or one-letter names."""
    parts = GAP.split(unicodedata.normalize("NFKC", text).translate(DASHES))
    found = [merged(letters(part)) for part in parts]
    for i in range(1, len(parts) - 1, 2):
        if all(side.isdecimal() or len(side) == 1 for side in (parts[i - 1], parts[i + 1])):
            found[i] = next((sign for sign in SIGNS if sign in parts[i]), "")
    return "".join(found)


def readings(text: str) -> Iterator[str]:
    """The text as it is; and without tags, entities and LaTeX commands where it may have some."""
    yield text
    if "<" in text or "\\" in text or "&" in text:
        bare = MARKUP.sub(" ", html.unescape(text))
        if bare != text:
            yield bare
