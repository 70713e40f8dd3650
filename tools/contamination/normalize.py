"""A text as plain tokens: words without case and accents, numbers in figures, signs of arithmetic; dress does not count."""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from hashlib import blake2b

# Numbers however they are written: in words of some languages, in Chinese numerals.

# From zero on; `-` where a word says something else too.
NUMBER_WORDS = {
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


def fold_word(word: str) -> str:
    """As `plain` writes words: no accents, small letters; vowel signs of Indic scripts stay."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFKC", "".join(c for c in plain if unicodedata.category(c) != "Mn" or c >= "\u0900"))


UNITS = {fold_word(w): value for words in NUMBER_WORDS.values() for value, w in enumerate(words.split()) if w != "-"}
TENS = {fold_word(w): 10 * n for words in TENS_OF for n, w in enumerate(words.split(), 2)}
UNITS |= {
    f"{'ein' if unit == 'eins' else unit}und{ten}": 10 * n + i
    for n, ten in enumerate(TENS_OF[1].split(), 2)
    for i, unit in enumerate(NUMBER_WORDS["de"].split()[:10])
    if i
}
NAMES = frozenset((*UNITS, *TENS))


def convert_chinese_numerals(text: str) -> str:
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


def words_to_numbers(words: Sequence[str]) -> list[str]:
    """Tokens with number words as figures: `twenty three` is 23, `2 million` is 2000000."""
    return list(_words_to_numbers(words))


def _words_to_numbers(words: Sequence[str]) -> Iterator[str]:
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


# Formulas without their dress: `\frac{1}{2}` is 1/2, `\text{km}` is km, `$x^{2}$` and x² are x^2.

INNER = r"\s*\{([^{}]*)\}"
ONE = r"\s*(?:\{([^{}]*)\}|(\w))"
STYLES = (
    "text(?:bf|it|rm|sf|tt|normal|up|sc)?|math(?:rm|bf|it|sf|tt|cal|bb|frak|scr|normal)|operatorname\\*?|boldsymbol|bm|mbox|"
    "hbox|fbox|boxed|emph|underline|overline|ensuremath|displaystyle|textstyle|limits|nolimits|left|right|middle|"
    "[bB]igg?[lrm]?|quad|qquad|phantom|small|large"
)
NESTED = (
    (re.compile(rf"\\(?:{STYLES})(?![A-Za-z]){INNER}", re.I), r" \1 "),
    (re.compile(rf"\\[dtc]?frac(?![A-Za-eg-z]){ONE}{ONE}", re.I), r" \1\2/\3\4 "),
    (re.compile(rf"\\sqrt(?![A-Za-z]){ONE}", re.I), r" √\1\2 "),
    (re.compile(rf"([\^_]){INNER}"), r"\1\2 "),
)
PLAIN = (
    (re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}(?:\{[^{}]*\})?", re.I), " "),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?", re.I), "° "),
    (re.compile(rf"\\(?:{STYLES})(?![A-Za-z])", re.I), " "),
    (re.compile(r"(?<=\d)(?:\\[,;:! ]|\{,\})(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\[,;:!> \\$&#_{}()\[\]]"), " "),
)
SIGNS = {
    "times": "×", "cdot": "×", "ast": "×", "div": "/", "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥",
    "geqslant": "≥", "lt": "<", "gt": ">", "ne": "≠", "neq": "≠", "pm": "±", "sum": "∑", "prod": "∏", "int": "∫", "infty": "∞",
    "to": "→", "rightarrow": "→", "implies": "→", "Rightarrow": "→", "in": "∈", "cup": "∪", "cap": "∩", "subset": "⊂",
    "subseteq": "⊆", "equiv": "≡", "approx": "≈", "angle": "∠", "triangle": "△", "perp": "⊥", "parallel": "∥", "ldots": " ",
    "cdots": " ", "dots": " ", "alpha": "α", "beta": "β", "gamma": "γ", "Gamma": "γ", "delta": "δ", "Delta": "δ",
    "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "Theta": "θ", "iota": "ι", "kappa": "κ",
    "lambda": "λ", "Lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "Xi": "ξ", "pi": "π", "Pi": "π", "rho": "ρ", "sigma": "σ",
    "Sigma": "σ", "tau": "τ", "phi": "φ", "varphi": "φ", "Phi": "φ", "chi": "χ", "psi": "ψ", "Psi": "ψ", "omega": "ω",
    "Omega": "ω",
}  # fmt: skip
COMMAND = re.compile(r"\\([A-Za-z]+)")
DEPTH = 8


def strip_latex(text: str) -> str:
    """The text with LaTeX commands as signs and words; a text without a backslash or brace is returned as it is."""
    if "\\" not in text and "{" not in text:
        return text
    for pattern, plain in PLAIN[:2]:
        text = pattern.sub(plain, text)
    for _ in range(DEPTH):
        before = text
        for pattern, plain in NESTED:
            text = pattern.sub(plain, text)
        if text == before:
            break
    for pattern, plain in PLAIN[2:]:
        text = pattern.sub(plain, text)
    return COMMAND.sub(lambda m: SIGNS.get(m[1]) or SIGNS.get(m[1].lower(), f" {m[1]} "), text)


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


def tokens_with_breaks(text: str) -> list[str]:
    """The tokens with `BREAK` where a paragraph, a numbered line or an option begins."""
    text = MOLECULE.sub(_keep_molecule, text)
    if not text.isascii():
        text = _fold_signs(THOUSANDS.sub("", text))
    if "&" in text and ";" in text:
        text = html.unescape(text)
    if "<" in text:
        text = TAG.sub(lambda m: "^" if m[0].casefold() == "<sup>" else " ", text)
    if "*" in text:
        text = PRODUCT.sub("×", text)
    text = strip_latex(text)
    if "\n" in text and LISTED.search(text):
        text = LINE.sub(f" {BREAK} ", text)
    text = BORDER.sub(f" {BREAK} ", text).casefold()
    if "," in text or "'" in text:
        text = THOUSANDS.sub("", text)
    if "." in text:
        text = ROUND.sub(_normalize_decimal, POINT.sub("0.", text))
    found = TOKEN.findall(text)
    if "⟦" in text:
        found = [f"0{word}" if word[0] == "⟦" else word for word in found]  # as little to be replaced as a number
    if RARE.isdisjoint(found):
        return found
    found = words_to_numbers([ALIKE.get(word, word) for word in STOPPED.findall(text)])
    found = [f"0{word}" if word[0] == "⟦" else word for word in found]
    return [word for word in found if word not in STOPS]


def _keep_molecule(match: re.Match[str]) -> str:
    if not re.search("[CcNnOo].*[CcNnOo]", match[0]):
        return match[0]
    return f" ⟦{blake2b(match[0].encode(), digest_size=8).hexdigest().translate(LETTERS)}⟧ "


def _normalize_decimal(match: re.Match[str]) -> str:
    """`2.50` is 2.5 and `7.00` is 7."""
    return match[1].rstrip(".")


def _fold_signs(text: str) -> str:
    """Forms of one sign as one: width, style, script of digits, raised digits, accents, dashes."""
    text = RAISED.sub(lambda m: "^" + unicodedata.normalize("NFKC", m[0]), VULGAR.sub(" ", text))
    text = unicodedata.normalize("NFKD", text).translate(_signs())
    if LOOKALIKE.search(text):
        text = WORD.sub(lambda m: m[0].translate(LOOKALIKES) if LATIN.search(m[0]) else m[0], text)
    return convert_chinese_numerals(unicodedata.normalize("NFKC", text))


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
