"""Numbers and times as people write them: 1e-4, 20k, two, half an hour, 2h30."""

from __future__ import annotations

import re
from collections.abc import Callable

UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = {word: float(i) for i, word in enumerate(UNITS)} | {word: 20.0 + 10 * i for i, word in enumerate(TENS)}
SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "k": 1e3,
    "m": 1e6,
    "%": 0.01,
    "percent": 0.01,
    "dozen": 12.0,
}
SPOKEN = "|".join(sorted(WORDS, key=len, reverse=True))
DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d[\d_]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d{1,3})?"
NUMBER = (
    rf"(?:(?<!\d,)-?{DIGITS}(?:\s?(?:k|m|%|percent|thousand|million))?(?![a-z0-9]|,\d)|"
    rf"(?:a |one )?(?:{SPOKEN}|hundred|thousand|million|dozen|couple of)(?:[ -](?:{SPOKEN}|hundred|"
    rf"thousand|million))*(?: percent\b| ?%)?(?!-?[a-z]))"
)
ONE = r"(?:an?|another|one|a single|a couple of|a couple)"

AMOUNT = rf"(?:{NUMBER})"
UNIT = {"h": 3600.0, "m": 60.0, "d": 86400.0, "s": 1.0, "w": 604800.0}
MORE = r"(?:\s(?P<more>more|additional|extra|further|other))?"
AGAIN = r"(?:(?P<more>another|an extra|an additional|a further|an other) )"
TIMES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], float]], ...] = (
    (
        re.compile(r"\b(?:(?:an?|another|one) )?(?:(?P<more>extra|additional|further|other|more) )?hour and a half\b"),
        lambda _: 5400.0,
    ),
    (re.compile(rf"\b(?:one|1) and a half{MORE} hours?\b"), lambda _: 5400.0),
    (
        re.compile(rf"\b(?P<n>{AMOUNT})(?: and a half{MORE} hours?| hours? and a half)\b"),
        lambda m: 3600 * (number(m["n"]) + 0.5),
    ),
    (re.compile(rf"\b(?:{AGAIN}|a )?half (?:an hour|hour|another hour)\b"), lambda _: 1800.0),
    (re.compile(rf"\b{AGAIN}?three quarters of an hour\b"), lambda _: 2700.0),
    (re.compile(rf"\b(?:{AGAIN}|a )?quarter (?:of an hour|hour)\b"), lambda _: 900.0),
    (re.compile(r"\b(?:another )?half a day\b"), lambda _: 43200.0),
    (
        re.compile(r"\b(\d{1,3}) ?h(?:ours?|rs?)?(?: and)? ?(\d{1,2}) ?(?:m|min|mins|minutes)?(?![\w.])"),
        lambda m: 3600.0 * int(m[1]) + 60 * int(m[2]),
    ),
    (re.compile(r"\b(\d{1,3}):(\d{2})(?: ?h| hours?)\b"), lambda m: 3600.0 * int(m[1]) + 60 * int(m[2])),
    (
        re.compile(rf"\b(?P<n>-?{DIGITS}) ?(?P<unit>h|hr|hrs|min|mins|m|d|s|sec|secs)(?![\w.])"),
        lambda m: number(m["n"]) * UNIT[m["unit"][0]],
    ),
    (
        re.compile(
            rf"\b(?P<n>{AMOUNT}|an?|another){MORE} (?P<unit>hours?|minutes?|days?|seconds?|mins?|hrs?|secs?|"
            rf"weeks?)\b"
        ),
        lambda m: number(m["n"]) * UNIT[m["unit"][0]],
    ),
)


def number(said: str) -> float:
    """What the words or digits say; they are known to be a number."""
    text = said.strip().lower()
    if re.fullmatch(r"an?|another|one|a single", text):
        return 1.0
    if text.startswith(("a couple", "couple")):
        return 2.0
    if match := re.match(rf"-?{DIGITS}", text):
        scale = SCALES.get(text[match.end() :].strip(), 1.0)
        value = float(match[0].replace(",", "").replace("_", ""))
        return float(f"{value * scale:.12g}")
    total = 0.0
    for word in re.split(r"[ -]", text):
        if word in SCALES:
            total = max(total, 1.0) * SCALES[word]
        else:
            total += WORDS.get(word, 0.0)
    return total


def seconds_in(text: str, tag: Callable[[float], str]) -> str:
    """The text with times replaced by tags; `more` inside a time is put before it."""
    for pattern, seconds in TIMES:

        def take(match: re.Match[str], seconds: Callable[[re.Match[str]], float] = seconds) -> str:
            more = match.groupdict().get("more") or re.search(r"\banother\b", match[0])
            return f"more {tag(seconds(match))}" if more else tag(seconds(match))

        text = pattern.sub(take, text)
    return text


def joined(text: str, add: Callable[[str, str], str]) -> str:
    """`an hour and thirty minutes`: two times beside each other are one."""
    return re.sub(r"<(t\d+)>(?: and|,| ,)? <(t\d+)>", lambda match: add(match[1], match[2]), text)
