"""A text as plain tokens: words without case and accents, numbers in figures, signs of arithmetic; dress does not count."""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from hashlib import blake2b

from tuneloop.tools.likeness.latex import undressed
from tuneloop.tools.likeness.numerals import NAMES, SCALES, chinese, in_figures

# Japanese, Chinese, Thai, Lao, Burmese and Khmer put no blanks between words: every sign is a token.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
OPERATORS = "+×/=<>^%√∫∑∏≤≥≠±∞→∈∪∩⊂⊆≡≈∠△⊥∥"
BREAK = "¶"
INDIC = "\u0900-\u0963\u0971-\u0dff"  # their vowel signs are part of a word
WORDS = (
    rf"⟦[a-p]+⟧|\d+(?:\.\d+)?|[{UNSPACED}]|(?:[^\W\d_{UNSPACED}]|[{INDIC}])+|[{OPERATORS}{BREAK}]"
    r"|-(?=[\s$(]*[\d√])|(?<=[^\W_]\s)-(?=\s)"
)
TOKEN = re.compile(WORDS)
STOPS = ".,;:|!?()"
STOPPED = re.compile(rf"{WORDS}|(?<!thousand)(?<!million)(?<!billion)[{STOPS}]")  # where a number in words ends
# An empty line and the label of an option: what stands on both sides of them may change places. So may a list's lines.
BORDER = re.compile(r"\n\s*(?:\n\s*)+|(?:(?<=\s)|^)(?:[A-J][.):]|[(\[][A-Ja-j1-9][)\]]|[a-j]\))[.:]?(?=\s)")
LISTED = re.compile(r"(?:^|\n)\s*1[.)]\s[\s\S]*\n\s*2[.)]\s")
LINE = re.compile(r"(?:^|\n)\s*\d{1,2}[.)](?=\s)")
VULGAR = re.compile("(?<=\\d)(?=[\u00bc-\u00be\u2150-\u215e])")
RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
SAME = str.maketrans("−–—‐‑‒·⋅∙•÷∕⁄∗✕✖′’٬٫", "------××× ///×××''_.")
# Letters that look like Latin ones, beside Latin ones in a word.
LOOKALIKE = re.compile("[аеорсхуіјѕһкмтнвАВЕКМНОРСТХУІЈЅοΟ]")
LOOKALIKES = str.maketrans("аеорсхуіјѕһкмтнвАВЕКМНОРСТХУІЈЅοΟ", "aeopcxyijshkmthbABEKMHOPCTXYIJSoO")
WORD, LATIN = re.compile(r"\w+"), re.compile("[A-Za-z]")
VOICED = (0x3099, 0x309A)  # of kana
THOUSANDS = re.compile(r"(?<=\d)[,'_\u00a0\u2009\u202f](?=\d{3}(?!\d))")
PRODUCT = re.compile(r"(?<=[\w)])\*(?=[\w(])|(?<=[\w)] )\*(?= [\w(])")
POINT = re.compile(r"(?<![\w.])\.(?=\d)")
ROUND = re.compile(r"(\d+\.\d*?)0+(?!\d)")
TAG = re.compile(r"<(/?)(?:b|i|u|p|br|em|strong|su[bp]|span|div|code|pre|t[drh]|table|li|[uo]l|h[1-6])\b[^<>]*>", re.I)
ALIKE = {"percent": "%", "sqrt": "√"}
RARE = NAMES | SCALES.keys() | ALIKE.keys()


# A molecule written as SMILES: one sign more or less, or another case, and it is another molecule.
MOLECULE = re.compile(
    r"(?<!\S)(?=\S*[=#()\[\]\d])(?=\S{0,3}[CcNnOo])"
    r"(?:\[[^\[\]\s]{1,12}\]|Cl|Br|[BCNOPSFIbcnops]|[-=#$:/\\().%\d]){5,}(?=[,;:?!]?(?:\s|$))"
)
LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")


def tokens(text: str) -> list[str]:
    """The text's plain tokens, in order."""
    return [token for token in broken(text) if token != BREAK]


def broken(text: str) -> list[str]:
    """The tokens with `BREAK` where a paragraph, a numbered line or an option begins."""
    text = MOLECULE.sub(_molecule, text)
    if not text.isascii():
        text = _ascii_like(THOUSANDS.sub("", text))
    if "&" in text and ";" in text:
        text = html.unescape(text)
    if "<" in text:
        text = TAG.sub(lambda m: "^" if m[0].casefold() == "<sup>" else " ", text)
    if "*" in text:
        text = PRODUCT.sub("×", text)
    text = undressed(text)
    if "\n" in text and LISTED.search(text):
        text = LINE.sub(f" {BREAK} ", text)
    text = BORDER.sub(f" {BREAK} ", text).casefold()
    if "," in text or "'" in text:
        text = THOUSANDS.sub("", text)
    if "." in text:
        text = ROUND.sub(_round, POINT.sub("0.", text))
    found = TOKEN.findall(text)
    if "⟦" in text:
        found = [f"0{word}" if word[0] == "⟦" else word for word in found]  # as little to be replaced as a number
    if RARE.isdisjoint(found):
        return found
    found = in_figures([ALIKE.get(word, word) for word in STOPPED.findall(text)])
    found = [f"0{word}" if word[0] == "⟦" else word for word in found]
    return [word for word in found if word not in STOPS]


def _molecule(match: re.Match[str]) -> str:
    if not re.search("[CcNnOo].*[CcNnOo]", match[0]):
        return match[0]
    return f" ⟦{blake2b(match[0].encode(), digest_size=8).hexdigest().translate(LETTERS)}⟧ "


def _round(match: re.Match[str]) -> str:
    """`2.50` is 2.5 and `7.00` is 7."""
    return match[1].rstrip(".")


def _ascii_like(text: str) -> str:
    """Forms of one sign as one: width, style, script of digits, raised digits, accents, dashes."""
    text = RAISED.sub(lambda m: "^" + unicodedata.normalize("NFKC", m[0]), VULGAR.sub(" ", text))
    text = unicodedata.normalize("NFKD", text).translate(_signs())
    if LOOKALIKE.search(text):
        text = WORD.sub(lambda m: m[0].translate(LOOKALIKES) if LATIN.search(m[0]) else m[0], text)
    return chinese(unicodedata.normalize("NFKC", text))


@functools.cache
def _signs() -> dict[int, str | int | None]:
    """Dashes and signs as one each, digits of any script as 0-9, without accents and what is not seen."""
    signs: dict[int, str | int | None] = dict(SAME)
    for code in range(128, 0x20000):
        kind = unicodedata.category(chr(code))
        if kind in ("Cf", "Me") or (kind == "Mn" and not 0x900 <= code < 0x1AB0 and code not in VOICED):
            signs[code] = None
        elif kind == "Nd":
            signs[code] = str(unicodedata.decimal(chr(code)))
    return signs
