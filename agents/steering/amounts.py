"""How much the run may use: more, less, or a total as the difference to what it may use now."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.switches import factor
from tuneloop.core.directive import Extend

LETTERS = "tekmg"  # time, experiments, tokens, money, GPU-hours
LARGEST = 1e12
Amounts = dict[str, float]
FOREIGN = re.compile(r"[€£]|\b(?:eur|euros?|pounds?)\b", re.IGNORECASE)  # what is spent is counted in US dollars
LESS = re.compile(
    r"\b(?:less|fewer|shorten|shorter|cut|reduce|decrease|take .*\b(?:off|away|out|back)|subtract|drop|lower|minus|shrink|trim|"
    r"shave|earlier|sooner|knock|halve|slash|without)\b"
)
MORE = re.compile(
    r"\b(?:more|plus|additional|extra|further|another|longer|extend\w*|add|grant|increase|prolong|top up|on top|raise|up)\b"
)
LIMIT = re.compile(
    r"\b(?:limits?|caps?|ceiling|budget|maximum|allowance|in (?:total|all|sum)|all in all|all told|altogether|overall|total)\b"
)
LEFT = re.compile(
    r"\b(?:left|remain\w*|within|in (?:the next )?<t|from (?:now|here|this)|(?:be|all|this|it) done|done in|finish\w*|starting now|"
    r"to go|by then|at most|no more than|max|not more|no longer|on my desk|ready)"
)
TOTAL = re.compile(
    rf"(?:{LIMIT.pattern}).*\bto (?:an? )?<|\bto <.*(?:{LIMIT.pattern})|"
    r"\b(?:at most|no more than|not more than|no longer than|max(?:imum)?|only)\b.*<|\bdone (?:in|within) (?:the next )?<t"
)
EACH = re.compile(r"\b(?:per|each|every) (?:\w+ )?(?:experiment|day|run|round|training)\b|\bexperiments? longer\b")
CARD = re.compile(r"\b(?:gpu|card|accelerator)[ -](?:time|budget|allowance|allotment|limit|quota|cap)\b")
NAMED = re.compile(
    r"\b(?:(?P<g>gpu)|(?P<t>time|hours)|(?P<e>experiments?|rounds)|(?P<k>tokens?)|(?P<m>money|dollars?|spending|cost))\b"
)


def extended(clause: Clause, known: Known, sign: int) -> Extend | None:
    """More (1) or less (-1) of what is named, or a total (0); None where that cannot be told."""
    if clause.has(r"<[pvsn]\d+>") or FOREIGN.search(clause.said) or EACH.search(clause.text):
        return None
    found = {letter: [float(str(amount)) for amount in clause.all(letter)] for letter in LETTERS if clause.all(letter)}
    if "t" in found and CARD.search(clause.text):
        found["g"] = [seconds / 3600 for seconds in found.pop("t")]
    if not found:
        return scaled(clause, known)
    if any(len(some) > 1 or not 0 < some[0] < LARGEST for some in found.values()) or (
        sign and against(clause.text, sign)
    ):
        return None
    sign = 0 if TOTAL.search(clause.text) else sign
    said = {letter: some[0] for letter, some in found.items()}
    more = {letter: sign * amount for letter, amount in said.items()} if sign else total(said, clause.text, known)
    left = {"t": known.seconds_left, "e": known.experiments_left}
    if any(left[letter] is not None and float(left[letter] or 0) + more.get(letter, 0) < 0 for letter in left):
        return None
    return wish(more)


def against(text: str, sign: int) -> bool:
    """Whether the words say the opposite."""
    less, more = LESS.search(text) is not None, MORE.search(text) is not None
    return less and not more if sign > 0 else not less


def total(said: Amounts, text: str, known: Known) -> Amounts:
    """The difference to what is left, or to the limit; nothing where there is none."""
    left = {"t": known.seconds_left, "e": known.experiments_left}
    now = {**limits(known), **(left if LEFT.search(text) and not LIMIT.search(text) else {})}
    if re.search(r"(?<!no )(?<!not )\bmore\b(?! than)", text) and not set(said) <= {"t", "e"}:
        return {}  # of what is left of it nobody knows
    more = {letter: amount - float(limit) for letter, amount in said.items() if (limit := now[letter]) is not None}
    if any(left[letter] is not None and float(left[letter] or 0) + more.get(letter, 0) <= 0 for letter in left):
        return {}  # nothing would be left: that is no budget
    return more if len(more) == len(said) else {}


def scaled(clause: Clause, known: Known) -> Extend | None:
    """`double the time`, `halve the budget for tokens`."""
    times, names = factor(clause), NAMED.search(clause.text)
    if times is None or names is None:
        return None
    letter = str(names.lastgroup)
    limit = left_of(known, letter) if LEFT.search(clause.text) and letter in "te" else limits(known)[letter]
    return wish({letter: float(limit) * (times - 1)}) if limit else None


def left_of(known: Known, letter: str) -> float | None:
    """Seconds or experiments that are left."""
    return known.seconds_left if letter == "t" else known.experiments_left


def limits(known: Known) -> dict[str, float | None]:
    """Of the whole run."""
    now = known.limits
    return {"t": now.seconds, "e": known.experiments_limit, "k": now.tokens, "m": now.money, "g": now.gpu_hours}


def wish(more: Amounts) -> Extend | None:
    """As a wish, where there is a difference."""
    found = Extend(
        seconds=round(more.get("t", 0), 3),
        experiments=int(more.get("e", 0)),
        tokens=int(more.get("k", 0)),
        money=round(more.get("m", 0), 6),
        gpu_hours=round(more.get("g", 0), 6),
    )
    return None if found == Extend() else found
