"""Extract words, numbers, equations and final answers from texts; standard library only, data scripts include these."""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:,\d+)*(?:\.\d+)?(?:/\d+)?")
AMOUNT = r"[$€£]?\d+(?:,\d+)*(?:\.\d+)?"
OPERATOR = r"(?:[-+*/×÷−·]|x)"
EQUATION = re.compile(rf"({AMOUNT}(?:\s*{OPERATOR}\s*{AMOUNT})+)\s*=\s*(-?{AMOUNT})(?!\s*[-+*/×÷%^(]\s*\d|[\d%]|\.\d)")
LETTER = re.compile(r"(?<![A-Za-z0-9])([A-J])(?![A-Za-z0-9'])")
STATED = re.compile(
    r"(?:####|</think>|(?:final\s+|correct\s+)?(?:answer|option|result|antwort|lösung|respuesta|réponse|risposta|resposta|ответ|答案|答え)"
    r"\s*(?:is|are|should be|would be|must be|ist|es|est|è|é|是|は|为)?\s*[:：=]?)\s*",
    re.IGNORECASE,
)
BOX = re.compile(r"\\boxed\s*\{")
# A tag that is never closed ends at the next one: many of them shall not be read to the end each.
TAG = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.IGNORECASE | re.DOTALL)
LONGEST_NUMBER = 300  # characters: Python refuses to read numbers of 4300 digits
LONGEST_EXPRESSION = 1000
SIGNS = (("plus", "+"), ("minus", "-"), ("times|multiplied by", "*"), ("divided by", "/"))
MAKES = re.compile(
    r"(?<=\d),?\s*(?:which |that |this )?(?:makes|equals|is equal to|gives|is|are|leaves)\b(?=\s*-?\d)", re.IGNORECASE
)
VERDICTS = (frozenset({"yes", "true", "1", "y"}), frozenset({"no", "false", "0", "n"}))
SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def tokens(text: str) -> list[str]:
    """Words without case; every number is `#`, every ideograph a word of its own."""
    found = WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return ["#" if word[0].isdigit() else word for word in found]


def endless(text: str, max_new_tokens: int) -> bool:
    """Whether a reply looks cut off: nearly as long as allowed, or one line over and over."""
    lines = [line for line in text.splitlines() if line.strip()]
    repeated = len(lines) >= 4 and Counter(lines).most_common(1)[0][1] >= 0.6 * len(lines)
    return repeated or len(tokens(text)) >= 0.6 * max_new_tokens


def normalise(text: str) -> str:
    """The text without case, punctuation and spacing: equal for near duplicates. Numbers and signs before them stay."""
    return " ".join(re.findall(r"-?\d+(?:\.\d+)?|[^\W\d_]+", unicodedata.normalize("NFKC", text).casefold()))


def plain_number(text: str) -> str | None:
    """`$1,200.50` → `1200.5`, `3/4` → `0.75`, `7.0` → `7`; None when the text is not one number, or beyond all use."""
    bare = text.strip().strip("$€£%. ").replace(",", "").replace("−", "-").removeprefix("+").lstrip("$€£ ")
    if len(bare) > LONGEST_NUMBER or not re.fullmatch(r"-?\d+(?:\.\d+)?(?:/[1-9]\d*)?", bare):
        return None
    if bare.removeprefix("-").isdecimal():
        return str(int(bare))
    top, _, bottom = bare.partition("/")
    value = Fraction(top) / (int(bottom) if bottom else 1)
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6f}".rstrip("0")


def amount(text: str) -> Fraction | int:
    """`$1,200` → 1200; whole numbers stay whole, which is quicker."""
    bare = re.sub(r"[$€£,]", "", text)
    return int(bare) if bare.isdecimal() else Fraction(bare)


def value_of(expression: str) -> Fraction | int | None:
    """What `2 + 3 × 4` is, products before sums; None for a division by zero, or when it is too long."""
    if len(expression) > LONGEST_EXPRESSION:
        return None
    parts = re.findall(rf"{AMOUNT}|{OPERATOR}", expression)
    total: Fraction | int = 0
    sign, product = 1, amount(parts[0])
    for op, after in zip(parts[1::2], parts[2::2], strict=True):
        number = amount(after)
        if op in "+-−":
            total, sign, product = total + sign * product, 1 if op == "+" else -1, number
        elif op in "/÷":
            if number == 0:
                return None
            product = Fraction(product) / number
        else:
            product *= number
    return total + sign * product


def equation_matches(text: str) -> list[re.Match[str]]:
    """Where the text has `a + b = c`, groups 1 and 2 being the sides; parts of longer expressions are none."""
    return [
        match
        for match in (EQUATION.finditer(text) if "=" in text else ())
        if text[: match.start()].rstrip()[-1:] not in tuple("+-*/×÷−^(=%") and len(match[0]) <= LONGEST_EXPRESSION
    ]


def equations(text: str) -> list[tuple[str, str, bool]]:
    """Every `a + b = c` in the text: left side, right side, and whether it holds (a rounded result does)."""
    found = []
    for match in equation_matches(text):
        left, right = match[1], re.sub(r"[$€£,]", "", match[2])
        value = value_of(left)
        slack = Fraction(51, 100) / 10 ** len(right.partition(".")[2]) if "." in right else 0
        found.append((left, right, value is not None and -slack <= value - amount(right) <= slack))
    return found


def unfinished(text: str, answer: str | None) -> re.Match[str] | None:
    """The last of several equations where it gives another number than the answer and no other `=` follows; else None."""
    found = equation_matches(text)
    if len(found) < 2 or answer is None or same_answer(found[-1][2], answer) or "=" in text[found[-1].end() :]:
        return None
    return found[-1]


def signs(text: str) -> str:
    """The text with arithmetic in signs where it was in words between numbers: `3 plus 9, which makes 12` → `3 + 9 = 12`."""
    changed = text
    for words, sign in SIGNS:
        changed = re.sub(rf"(?<=\d)\s+(?:{words})\s+(?=\d)", f" {sign} ", changed, flags=re.IGNORECASE)
    return MAKES.sub(" =", changed) if changed != text else text


def boxed(text: str) -> str | None:
    r"""Content of the last `\boxed{}`, inner braces included."""
    starts = list(BOX.finditer(text))
    if not starts:
        return None
    depth, begin = 1, starts[-1].end()
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin:i].strip()
    return text[begin:].strip()


def stated(text: str) -> str | None:
    """What the text itself calls its answer: a box, a tag, or the rest of the line after `Answer:` and its like."""
    tagged = TAG.findall(text)
    found = boxed(text) or (tagged[-1].strip() if tagged else None)
    if found is None and (marks := list(STATED.finditer(text))):
        found = text[marks[-1].end() :].strip().partition("\n")[0]
    return found.strip(" *_`\"'").rstrip(".。 *") or None if found else None


def number_in(text: str | None, *, last: bool) -> str | None:
    """The first or last number of a text, plain."""
    found = NUMBER.findall(text or "")
    return plain_number(found[-1 if last else 0]) if found else None


def letter_in(text: str | None) -> str | None:
    """The option letter of a text: the whole of it, at its head (`B) 12`), or the last that stands alone."""
    bare = (text or "").strip().strip("()[]*. ")
    if re.fullmatch(r"[A-Ja-j]", bare):
        return bare.upper()
    head = re.match(r"\(?([A-J])\s*[.):\]]", bare)
    found = LETTER.findall(bare)
    return head[1] if head else next((c for c in reversed(found) if c not in "AI" or len(bare) < 12), None)


def label_in(text: str, labels: Sequence[str]) -> str | None:
    """The label a text is, states, misspells a little, or mentions alone; in the labels' own writing."""
    names = {normalise(label) or label: label for label in labels}
    for part in (text, stated(text) or ""):
        bare = normalise(part) or part.strip()
        close = difflib.get_close_matches(bare, names, 1, 0.84) if 3 < len(bare) < 60 else []
        if bare in names or close:
            return names[bare if bare in names else close[0]]
        verdict = next((same for same in VERDICTS if bare in same), frozenset())
        meant = [label for name, label in names.items() if name in verdict]
        if meant and len(names) == 2:
            return meant[0]
    flat = f" {normalise(text)} "
    found = [name for name in names if f" {name} " in flat]
    return names[found[0]] if len(found) == 1 else None


def final_answer(text: str, shape: str) -> str | None:
    """The answer a solution ends with; `shape` is integer, number, letter, label or text. None: there is none."""
    said = stated(text)
    if shape in ("integer", "number"):
        found = number_in(said, last=False) or number_in(text, last=True)
        return None if found is None or (shape == "integer" and "." in found) else found
    if shape == "letter":
        return letter_in(said) or letter_in(text)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return said or (lines[-1].strip("*_`\"' ") if lines else None) or None


def same_answer(a: str | None, b: str | None) -> bool:
    """Equal as numbers, or as words without case and punctuation."""
    if a is None or b is None:
        return False
    left, right = plain_number(a), plain_number(b)
    return left == right if left or right else (normalise(a) or a.strip()) == (normalise(b) or b.strip())


def with_answer(form: str, answer: str) -> str:
    """A form of the final answer with the answer in the place of the last word `ANSWER`, closing tags apart."""
    places = [match.span() for match in re.finditer(r"(?<!</)\bANSWER\b", form)]
    return form[: places[-1][0]] + answer + form[places[-1][1] :] if places else form


def sentences(text: str) -> list[str]:
    """Sentences and lines, trimmed, without empty ones."""
    return [part.strip() for part in SENTENCE.split(text) if part.strip()]


# Labels that the words of other rows speak against; standard library only, data scripts carry these functions.

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
