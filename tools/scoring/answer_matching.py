r"""Read the answer in a reply, compare it with the gold answer; standard library only, engines load this file by path.

What stands between `<think>` and `</think>` is no answer. A reply without a readable answer is wrong, never an error.

boxed    the last complete `\boxed{...}`; numbers in normal form (`1,000.0` is `1000`), `\text{}` and blanks dropped
choice   one letter: in the last box, stated ("answer is", "答案"), else said last ("so it is"), else the only label
number   the last number; sign, decimals, thousands commas and exponents are read, percent and currency signs dropped
exact    the whole reply, trimmed, runs of white space as one blank, case matters
verifier what stands in the last `<answer>...</answer>`, else the whole reply, trimmed
code     no answer is read: the Python code, from the last block of it or, without one, the reply; its results are judged
regex:P  the last match of P in the last 4,000 characters: its first group, or all of it when P has none
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

UNSIGNED = r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+|\.(?!\w))?|\.\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
LAST_NUMBER = re.compile(rf"(?<![\w.])(?<![A-Za-z}}]\^)(?<![A-Za-z}}]\^\{{)(?:(?<![)\]}}])[-+])?{UNSIGNED}", re.ASCII)
WRAPPERS = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)\s*\{([^{}]*)\}"
WINDOW, REGEX_WINDOW, CODE_WINDOW, MAX_DIGITS = 20_000, 4_000, 65_536, 400


def correct(kind: str, answer: str, reply: str) -> bool:
    """Whether `reply` holds the gold `answer`, both in normal form."""
    run = kind.partition(":")[0] in ("code", "verifier")  # what it gives is judged, never how it looks
    right = None if run else gold(kind, answer)
    return right is not None and extract(kind, reply) == right


def judge(kind: str, answer: str, reply: str) -> dict[str, Any]:
    """What was found in the reply, and 1 if it is the gold `answer`, else 0."""
    return {"parsed": extract(kind, reply), "value": float(correct(kind, answer, reply))}


def extract(kind: str, reply: str) -> str | None:
    """The answer found in a reply, in normal form; None: there is none that can be read."""
    text = without_thoughts(reply)
    if text is None:
        return None
    if kind.startswith("regex:"):
        return by_pattern(kind.removeprefix("regex:"), text)
    return READERS[kind.partition(":")[0]](text) or None


def gold(kind: str, answer: str) -> str | None:
    """A gold answer in normal form; None: no reply could ever be right."""
    text = answer.strip()
    if kind == "boxed":
        return boxed(text if "\\boxed" in text else f"\\boxed{{{text}}}") or None
    if kind == "choice":
        match = re.fullmatch(r"\(?([A-Za-z])[).]*", text)
        return match[1].upper() if match else None
    if kind == "number":
        return plain_number(unsigned(text))
    if kind == "exact":
        return blanks(text) or None
    if kind == "code":
        return listed(text)
    return gold_by_pattern(kind.removeprefix("regex:"), text)


def render(template: str, fields: Mapping[str, str]) -> str:
    """`{name}` becomes the field's value where `name` is a field, in one pass; every other brace stays as it is."""
    if not fields:
        return template
    names = "|".join(re.escape(name) for name in sorted(fields, key=len, reverse=True))
    return re.sub(rf"\{{({names})\}}", lambda match: fields[match[1]], template)


def without_thoughts(reply: str) -> str | None:
    """The reply after its thoughts; None when they never end."""
    before, end, after = reply.rpartition("</think>")
    text = after if end else before + after
    return None if "<think>" in text else text


def blanks(text: str) -> str:
    """Trimmed, every run of white space as one blank."""
    return " ".join(text.split())


def plain_number(text: str) -> str | None:
    """`text`, if all of it is one number, in normal form: no plus, no commas, no needless zeros; else None."""
    if len(text) > MAX_DIGITS or not re.fullmatch(rf"[-+]?{UNSIGNED}", text, re.ASCII):
        return None
    digits = format(Decimal(text.replace(",", "").rstrip(".")), "f")
    whole, _, rest = digits.lstrip("-").partition(".")
    value = (whole.lstrip("0") or "0") + ("." + rest.rstrip("0") if rest.strip("0") else "")
    return "-" + value if digits.startswith("-") and value != "0" else value


THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|\\[,;:! ]|[\u00a0\u2009\u202f'’])(?=\d{3}(?!\d))")
DASH = re.compile(r"(?<![\w)\]}])(?<![\d)\]}]\s)[‐‑‒–﹣－](?=\.?\d)")  # a sign; not in "3–4"
APART = re.compile(r"([=(:{#][^\S\n]*)-[^\S\n]+(?=\.?\d)")


def unsigned(text: str) -> str:
    """Without percent, currency and mathematics signs; other minus signs become ASCII, signs between thousands commas."""
    text = text.replace("−", "-").replace("\\%", "").replace("\\$", "")
    text = APART.sub(r"\1-", DASH.sub("-", THOUSANDS.sub(",", text)))
    return re.sub(r"[%$€£¥]", "", text).strip()


def number(text: str) -> str | None:
    """The last number of a text. A minus between two values is no sign; digits inside a word are no number."""
    text = re.sub(r"\.{2,}", " ", unsigned(text[-WINDOW:]))
    found = [plain_number(match[0]) for match in LAST_NUMBER.finditer(text)]
    return next((value for value in reversed(found) if value), None)


def boxed(text: str) -> str | None:
    """The content of the last box in normal form; None without one."""
    inside = box(text)
    return None if inside is None else normal(inside)


def box(text: str) -> str | None:
    """The content of the box that was opened last and is closed; None without one."""
    opened: list[tuple[int, bool]] = []
    best: tuple[int, int] | None = None
    for match in re.finditer(r"(\\(?:boxed|fbox)\s*\{)|\\.|[{}]", text, re.DOTALL):
        if match[1] or match[0] == "{":
            opened.append((match.end(), bool(match[1])))
        elif match[0] == "}" and opened:
            start, box = opened.pop()
            if box and (best is None or start > best[0]):
                best = (start, match.start())
    return text[best[0] : best[1]] if best else None


def normal(text: str) -> str:
    """A box's content without LaTeX decoration; a number in its normal form."""
    for _ in range(10):
        before, text = text, undecorated(text)
        if text == before:
            break
    return text


def undecorated(text: str) -> str:
    """One round of `normal`."""
    text = re.sub(r"\\[dt]frac(?![a-z])", r"\\frac", re.sub(WRAPPERS, r"\1", text))
    text = re.sub(r"\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[,;:!]|~", "", text.replace("{,}", ","))
    text = blanks(unsigned(text)).rstrip(".").strip()
    text = re.sub(r"(?<=\w)( )(?=\w)|\s+", lambda match: match[1] or "", text)
    if re.fullmatch(r"-?\d{1,3}( \d{3})+(\.\d+)?", text, re.ASCII):
        text = text.replace(" ", "")
    return plain_number(text) or text


LINK = r"(?i:\b(?:is|be|should|would|must|the|correct|option|choice|letter|text|mathrm|mathbf)\b)"
AFTER_ANSWER = re.compile(
    rf"((?i:\b(?:final\s)?answer\b)(?:[^A-Za-z0-9]|{LINK})*)"
    r"(?:([A-Z])(?![A-Za-z0-9'’])|(?<=\()([a-z])(?=\))|([a-z])(?=[.)\]*\s]*\Z))"
)
AFTER_CHINESE = re.compile(
    r"((?:答案|正确选项|[故应]选|选择)(?:[\s:：，,(（【「“\"'$*_{\\]|[是为应该选项]|text|boxed|mathrm){0,20})([A-Z])(?![A-Za-z0-9])"
)
STATES = re.compile(r"(?i:\b(?:is|be|final)\b)|[:：=是为]")
ALONE = re.compile(r"(?<![A-Za-z0-9'’])(?<![A-Za-z]\.)([A-Z])(?![A-Za-z0-9'’]|\.[A-Za-z])")
PROSE = re.compile(r"\s+(?!(?:is|because|since|seems)\b)[A-Za-z]")
NOT = re.compile(
    r"(?:(?i:\b(?:not|neither|nor|never|cannot|than|eliminates?|excludes?|except)\b|n['’]t\b)|不[是选为]|而非|排除)"
    r"(?:[^\w.?!;:\n]|(?i:\b(?:be|is|the|option|choice)\b)|选项)*\Z"
)
WRONG = re.compile(
    r"[)\]*\"'’]*\s{0,9}(?:选项)?(?:(?i:(?:is|was|seems|would be)(?:n['’]t|\s(?:\w+\s)?(?:not|wrong|incorrect|false|out))\b)"
    r"|错误|不对|不正确|不符)"
)
ANOTHER = re.compile(
    r"[)\]*\"'’]*\s{0,9}(?:(?i:or|and)\b|[/&或和及、]|[,，](?=\s{0,9}\(?[A-Z][)*.\s]{0,9}(?:$|[,，]|or\b|and\b)))"
    r"[\s(*\[\"']*(?i:option\s|choice\s)?(?:[B-HJ-Z]|[AI](?!\s+[A-Za-z]))(?![A-Za-z0-9'’])(?!\s(?:is|are|was|can|does|has)\b)",
    re.MULTILINE,
)
SAID = re.compile(
    r"(?:(?i:\b(?:is|be|are|it['’]s|that['’]s|choose|chose|pick|select|letter|go with|but|so|thus|hence|therefore|say|probably))"
    r"|([:：])|[→选是为])[\s\"'“‘(*\[$（]*\Z"
)
# "Note: D is a mammal" states nothing.
EXPLAINED = re.compile(r"[^\S\n]+(?!(?:because|since|as|for)\b)(?:[a-z]|[-–—(])")
HELD = re.compile(r"[)\]*\"'’]*\s(?:is|seems|must be|has to be)\s(?:the\s|clearly\s)?(?:right|correct|best|true)\b")
LABEL = re.compile(
    r"(?m)(?:^[^\S\n]*[(*\[]*|(?i:option|choice|选项)\s?|[(\[*]{1,3})([A-Z])(?:[*]*[).:：,，\]]|\s[-–—](?=\s)|(?<![AI])\s\(|[*\s]*$|(?<=\*.)\*|(?=\s(?:is|because|since)\b))"
)
NARROW = {wide + i: ord(first) + i for wide, first in ((0xFF21, "A"), (0xFF41, "a")) for i in range(26)}


def choice(text: str) -> str | None:
    """The letter chosen; None when none is, or several.

    In this order: in the last box, all of the reply, stated last ("the answer is B"), beside the word "answer", said last
    ("so it is B"), the one label ("B) Paris", "option B", "(B)"). "Not B" and "B is wrong" choose nothing, the article "A" and
    the pronoun "I" are no letters, and neither is what stands behind a word, as in "Vitamin C".
    """
    text = text[-WINDOW:].translate(NARROW)
    if letter := in_box(text):
        return letter
    found = [
        (bool(STATES.search(match[1])), *match.span(match.lastindex or 0))
        for pattern in (AFTER_ANSWER, AFTER_CHINESE)
        for match in pattern.finditer(text)
    ]
    for sure, start, end in sorted(found, reverse=True):
        if not (denied(text, start, end) or is_prose(text, start, end, not sure) or opens_list(text, start, end)):
            return the_one(text, start, end)
    return said(text)


def in_box(text: str) -> str | None:
    """The letter in the last box, or that all of the text is; also with a word after it, as in "B. Paris"."""
    inside = boxed(text)
    whole = re.fullmatch(r"\W*([A-Za-z])\W*", text if inside is None else inside, re.ASCII)
    opening = re.match(r"\W*(?i:option\s*|choice\s*)?([A-Z])(?:[).:]|$)", inside or "", re.ASCII)
    found = whole or opening
    return found[1].upper() if found else None


def said(text: str) -> str | None:
    """The letter said last to be the answer, else the only one that is a label."""
    letters = [match.span(1) for match in ALONE.finditer(text)]
    letters = [span for span in letters if not is_prose(text, *span) and not denied(text, *span)]
    told = [(a, b) for a, b in letters if is_stated(text, a, b)]
    for span in reversed(told):
        if not opens_list(text, *span):
            return the_one(text, *span)
    labels = {the_one(text, *match.span(1)) for match in LABEL.finditer(text) if match.span(1) in letters}
    return labels.pop() if len(labels) == 1 else None


def is_stated(text: str, start: int, end: int) -> bool:
    """Whether the words before or after the letter say that it is the answer."""
    before = SAID.search(text[max(0, start - 20) : start])
    return (before is not None and not (before[1] and EXPLAINED.match(text, end))) or HELD.match(text, end) is not None


def the_one(text: str, start: int, end: int) -> str | None:
    """The letter there, unless it is one of several ("A or B")."""
    return None if ANOTHER.match(text, end) else text[start].upper()


def denied(text: str, start: int, end: int) -> bool:
    """Whether the letter is said not to be it."""
    return bool(NOT.search(text[max(0, start - 40) : start]) or WRONG.match(text, end))


def opens_list(text: str, start: int, end: int) -> bool:
    """Whether the letter is the label of a line, and a later line has the next letter: options are gone through."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    following = chr(ord(text[start]) + 1)
    return (
        re.fullmatch(r"[\s(*\[]*", line[:9]) is not None
        and re.match(r"[*]*[).:]", text[end : end + 9]) is not None
        and re.search(rf"^[^\S\n]*[(*\[]*{re.escape(following)}[*]*[).:]", text[end:], re.MULTILINE) is not None
    )


def is_prose(text: str, start: int, end: int, article: bool = True) -> bool:
    """Whether the letter is the pronoun "I" or, where it may be one, the article "A"."""
    if text[start] not in ("AI" if article else "I") or not PROSE.match(text, end):
        return False
    return not re.search(r"(?i:option|choice|choose|chose|pick|select)\s*$", text[max(0, start - 20) : start])


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A user's pattern. Raises ValueError when it is no regular expression or could take for ever."""
    try:
        result = re.compile(pattern)
    except re.error as e:
        raise ValueError(f"{pattern!r} is no regular expression: {e}") from e
    if nested_repeats(pattern):
        raise ValueError(f"{pattern!r} repeats a repetition, like (a+)+, and could take for ever")
    return result


def tokens(pattern: str) -> list[str]:
    """A pattern in pieces: escapes, character classes, repetitions, single characters."""
    return re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,\d*\}|.", pattern, re.DOTALL)


def nested_repeats(pattern: str) -> bool:
    """Whether a group that repeats without bound holds a repetition without bound."""
    pieces, inside = tokens(pattern), [False]
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        if piece == "(":
            inside.append(False)
        elif piece == ")" and len(inside) > 1:
            repeated = inside.pop()
            if repeated and endless(following):
                return True
            inside[-1] |= repeated
        else:
            inside[-1] |= endless(piece)
    return False


def endless(piece: str) -> bool:
    """`*`, `+`, `{2,}`."""
    return piece in ("*", "+") or (len(piece) > 2 and piece.startswith("{") and piece.endswith(",}"))


def by_pattern(pattern: str, text: str) -> str | None:
    """First group, or all, of the last match that is not empty."""
    expression = compiled(pattern)
    found = [found_by(match) for match in expression.finditer(text[-REGEX_WINDOW:])]
    return next((value for value in reversed(found) if value), None)


def found_by(match: re.Match[str]) -> str:
    """What a match says, in normal form: in small letters when the pattern ignores case."""
    text = blanks((match[1] if match.re.groups else match[0]) or "")
    return text.lower() if match.re.flags & re.IGNORECASE else text


def gold_by_pattern(pattern: str, answer: str) -> str | None:
    """A gold answer is a text that matches as a whole, or what the pattern's first group would find."""
    expression = compiled(pattern)
    if match := expression.fullmatch(answer):
        return found_by(match) or None
    text = answer.lower() if expression.flags & re.IGNORECASE else answer
    part = first_group(pattern, expression.flags)
    if part is None:
        depends_on_neighbours = expression.groups or re.search(r"\(\?<?[=!]", pattern)
        return (blanks(text) or None) if depends_on_neighbours else None
    return (blanks(text) or None) if part.fullmatch(answer) else None


def first_group(pattern: str, flags: int) -> re.Pattern[str] | None:
    """The first capturing group as a pattern of its own; None when there is none or it cannot stand alone."""
    pieces = tokens(pattern)
    span = group_span(pieces)
    return None if span is None else alone("".join(pieces[span[0] : span[1] + 1]), flags)


def group_span(pieces: list[str]) -> tuple[int, int] | None:
    """Where a pattern's first capturing group begins and ends; None when there is none."""
    depth, start = 0, None
    for i, piece in enumerate(pieces):
        if piece == "(" and start is None and (pieces[i + 1] != "?" or pieces[i + 2 : i + 4] == ["P", "<"]):
            start, depth = i, 0
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if start is not None and depth == 0:
            return start, i
    return None


def alone(group: str, flags: int) -> re.Pattern[str] | None:
    """`group` compiled, or None when it refers to other parts of its pattern."""
    try:
        return re.compile(group, flags)
    except re.error:
        return None


FENCED = re.compile(r"^[ \t]*```[ \t]*([^\s`]*)[^\n`]*\n(.*?)(?:^[ \t]*```\s*?$|\Z)", re.MULTILINE | re.DOTALL)
PYTHON = ("python", "python3", "py")


def code(text: str) -> str | None:
    """The last fenced block said to be Python, else the last of no language; without blocks a reply that defines something."""
    text = text[-CODE_WINDOW:]
    fenced = [(match[1].lower(), match[2]) for match in FENCED.finditer(text)]
    said = [block for language, block in fenced if language in PYTHON]
    blocks = said or [block for language, block in fenced if not language]
    if not fenced and re.search(r"^(?:def|class|from|import)\b", text, re.MULTILINE):
        blocks = [text]
    return blocks[-1].strip("\n") if blocks and blocks[-1].strip() else None


def listed(answer: str) -> str | None:
    """What calls have to give, in one writing of JSON; None: no list of at least one value."""
    try:
        values = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return json.dumps(values, sort_keys=True) if isinstance(values, list) and values else None


def tagged(text: str) -> str:
    """What stands in the last pair of answer tags, else all of it."""
    before, end, _ = text.rpartition("</answer>")
    _, start, inside = before.rpartition("<answer>")
    return (inside if end and start else text).strip()


READS = {
    "boxed": r"what stands in the last complete box, e.g. `\boxed{41}`; numbers and text are compared without decoration",
    "choice": "one letter: in the last box, else the one stated last, e.g. `The answer is B.`; several letters are none",
    "number": "the last number of the reply, e.g. `So there are 41.`",
    "exact": "the whole reply and nothing else, white space apart, e.g. `Paris`",
    "code": "the last block fenced as ```python; it is run, and what it gives is compared",
    "verifier": "what stands in the last `<answer>...</answer>`, else the whole reply; a program decides what it is worth",
}
READERS = {"boxed": boxed, "choice": choice, "number": number, "exact": blanks, "code": code, "verifier": tagged}
