"""Clauses about how much the run may use: more or less time, experiments, GPU-hours, tokens, money."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause
from tuneloop.agents.steering.known import Known
from tuneloop.core.directive import Extend, Meaning, Unclear

MORE = re.compile(
    r"\b(?:more|additional|additionally|extra|further|another|longer|extend|extended|extension|add|adds|"
    r"give (?:it|you|them|the run|this|yourself)|"
    r"you (?:get|have|may have|can have)|grant|raise .*budget|increase|prolong|allow(?:ed)?|top up|on top)\b"
)
LESS = re.compile(r"\b(?:less|fewer|shorten|cut|reduce|decrease|take off|take away|subtract|shorter|drop|lower)\b")
REST = re.compile(
    r"\b(?:only|at most|no more than|not more than|up to|max(?:imum)?(?: of)?|within|in (?:the next )?<t|finish|stop after|"
    r"limit\w*|be done|cap|no longer than|remaining|left|instead|in total|altogether|overall|until)(?![a-z])"
)
WHOLE = re.compile(r"\b(?:in (?:total|all|sum)|all in all|all together|altogether|overall|total(?: of)?)(?![a-z])")
FOREIGN = re.compile(r"[€£]|\b(?:eur|euros?|pounds?)\b")  # what is spent is counted in US dollars
NO = re.compile(r"\b(?:not|never|no|without|nor|too much|too many|too long|already|took|lasted|so far)\b")


def amounts(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """More or less of what limits the run; () without an amount. What wants a total is worked out from what is left."""
    found = {letter: [float(str(a)) for a in clause.all(letter)] for letter in "tekmg"}
    if not any(found.values()) or clause.has(r"<[pvs]\d+>|<n\d+>"):
        return ()
    unclear = (Unclear(text=clause.said),)
    if any(len(amounts) > 1 for amounts in found.values()) or any(a <= 0 for some in found.values() for a in some):
        return unclear
    least = re.sub(r"\bno (?:more|longer) than\b|\bnot more than\b", "at most", clause.text)
    if NO.search(least) or (found["m"] and FOREIGN.search(clause.said.lower())):
        return unclear
    at_most = REST.search(least) and not re.search(r"\b(?:give|extend|add|extra|additional)\b", least)
    if WHOLE.search(least) or at_most:
        return (whole if WHOLE.search(least) else rest)(found, known) or unclear
    sign = -1 if LESS.search(least) and not MORE.search(least) else 1
    if (
        sign > 0
        and not MORE.search(least)
        and not re.fullmatch(
            r"(?:run|go on|keep going|train|continue|work|search|do|try|"
            r"make)(?: \w+){0,3}? for (?:more )?<t\d+>(?: more| longer)?",
            least,
        )
    ):
        return unclear
    said = {letter: sign * some[0] for letter, some in found.items() if some}
    return (
        Extend(
            seconds=said.get("t", 0),
            experiments=int(said.get("e", 0)),
            tokens=int(said.get("k", 0)),
            money=said.get("m", 0),
            gpu_hours=said.get("g", 0),
        ),
    )


def whole(found: dict[str, list[float]], known: Known) -> tuple[Meaning, ...]:
    """`up to ten dollars in all`: the difference to the limit; () where there is none to differ from."""
    now = known.limits
    limits = {"t": now.seconds, "e": known.experiments_limit, "k": now.tokens, "m": now.money, "g": now.gpu_hours}
    more = dict[str, float]()
    for letter, some in found.items():
        limit = limits[letter]
        if some and limit is None:
            return ()
        more[letter] = round(some[0] - limit, 6) if some and limit is not None else 0.0
    if not any(more.values()):
        return ()
    return (
        Extend(
            seconds=more["t"], experiments=int(more["e"]), tokens=int(more["k"]), money=more["m"], gpu_hours=more["g"]
        ),
    )


def rest(found: dict[str, list[float]], known: Known) -> tuple[Meaning, ...]:
    """`at most two more experiments`, `be done in an hour`: the difference to what is left; () where that is not known."""
    if found["k"] or found["m"] or found["g"]:
        return ()
    seconds = experiments = 0.0
    if found["t"]:
        if known.seconds_left is None:
            return ()
        seconds = found["t"][0] - known.seconds_left
    if found["e"]:
        if known.experiments_left is None:
            return ()
        experiments = found["e"][0] - known.experiments_left
    return (Extend(seconds=round(seconds), experiments=int(experiments)),)
