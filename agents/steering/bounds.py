"""Clauses that bound a parameter: at most, at least, between."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause, numbers_of
from tuneloop.core.directive import Bound, Meaning

NOT = re.compile(
    r"\b(?:never|not|no|without|avoid\w*|refrain|stop|nothing|unacceptable|too (?:much|many|high|large|"
    r"big|long|low|small|little|few)|neither|nor|forbid\w*|forbidden|"
    r"off limits|off the table|"
    r"hands off|quit|skip|stay away|keep away|leave out|exclude|ban|banned|prohibit\w*|must not|taboo|"
    r"veto)\b"
)

ABSOLUTE_HIGH = re.compile(
    r"\b(?:no|not) (?:more|higher|greater|larger|bigger|longer|further) than\b|\b(?:not|"
    r"never) (?:to )?(?:exceed|go over|over|above|beyond|be over|be above)\b|"
    r"\bat (?:the )?(?:very )?most\b|\bup to\b|"
    r"\bmax(?:imum|imal|imally)?(?: of| value| is| at)?\b|\bcap(?:ped|s)?\b|(?<!off )\blimit(?:ed|"
    r"s)?\b(?! from below)|\b(?:upper|top|hard) (?:limit|bound|end)\b|\bceiling\b|\bor (?:less|lower|"
    r"below|smaller|fewer|under)\b|\btops\b|\bas (?:much|high|large) as\b"
)

ABSOLUTE_LOW = re.compile(
    r"\b(?:no|not) (?:less|lower|smaller|fewer|shorter) than\b|\b(?:not|never) (?:to )?(?:go (?:under|"
    r"below)|under|below|be under|be below)\b|\bat (?:the )?(?:very )?least\b|\bmin(?:imum|imal|"
    r"imally)?(?: of| value| is| at)?\b|\b(?:lower|bottom) (?:limit|bound|end)\b|\bfloor\b|\bor (?:more|"
    r"higher|above|larger|bigger|greater|over|up)\b"
)

HIGH = re.compile(
    r"\b(?:above|over|beyond|past|(?:higher|more|greater|larger|bigger|longer) than|exceed\w*|north of|surpass\w*)\b"
)

LOW = re.compile(r"\b(?:below|under|beneath|underneath|(?:lower|less|smaller|fewer|shorter) than|south of)\b")

# `above 32 is a waste`: a judgement, which denies; `above 32 is fine`, or one that is not understood, bounds nothing.
JUDGED = re.compile(
    r"<n\d+>(?: <p\d+>)? (?:is|are|was|seems?|looks?|sounds?|feels?|would be|will be|gets?|makes?|leads?|tends?)\b(?P<how>.*)"
)

BAD = re.compile(
    r"\b(?:wast\w*|pointless|useless|senseless|nonsense|overkill|silly|stupid|insane|crazy|mad|absurd|excessive|"
    r"harm\w*|bad|wrong|worse|worst|danger\w*|unstable|risky|unsafe|diverg\w*|unwanted|undesirable|unreasonable|"
    r"impossible|foolish|hopeless|out of the question)\b"
)

BETWEEN = re.compile(
    r"\b(?:between|from|in|within|range|inside|limited to)\b.*?<n\d+> ?(?:and|to|-|,|:) ?<n\d+>|"
    r"<n\d+> ?(?:-|to) ?<n\d+>"
)

RAISED = "raise|bump|increase|crank|turn|dial|push|bring|set|move|go with|pull|get"


def bounds(clause: Clause) -> tuple[Meaning, ...]:
    """One parameter and one or two limits."""
    names, values, text = clause.all("p"), numbers_of(clause), clause.text
    if len(names) != 1 or clause.all("v") or not 0 < len(values) < 3:
        return ()
    name, denied = str(names[0]), NOT.search(text) is not None
    if not denied and (judged := JUDGED.search(text)) and (HIGH.search(text) or LOW.search(text)):
        if not BAD.search(judged["how"]):
            return ()
        denied = True
    if len(values) == 2 and BETWEEN.search(text):
        outside = re.search(r"\b(?:outside|out of|leave)\b", text) is not None
        return (Bound(parameter=name, at_least=min(values), at_most=max(values)),) if denied == outside else ()
    pieces = re.split(r"(?<=>) ,? ?(?:and|or|but|nor)\b", text) if len(values) == 2 else [text]
    found: dict[str, float] = {}
    for piece in pieces:
        amounts = [clause.things[tag] for tag in re.findall(r"<(n\d+)>", piece)]
        end = direction(piece, denied=denied)
        if len(amounts) != 1 or not end or end in found:
            return ()
        found[end] = float(str(amounts[0]))
    if found.get("at_least", float("-inf")) > found.get("at_most", float("inf")):
        return ()
    return (Bound(parameter=name, **found),)


def direction(text: str, *, denied: bool) -> str:
    """`at_most` or `at_least`, "" where the words say neither or both."""
    text = re.sub(rf"\b(?:{RAISED})\b(.*?)\bup to\b", r"raise\1to", text)
    fixed = {end for end, words in (("at_most", ABSOLUTE_HIGH), ("at_least", ABSOLUTE_LOW)) if words.search(text)}
    rest = ABSOLUTE_LOW.sub(" ", ABSOLUTE_HIGH.sub(" ", text))
    high, low = HIGH.search(rest), LOW.search(rest)
    if high and low:
        return ""
    if high or low:
        fixed.add("at_most" if bool(high) == denied else "at_least")
    return next(iter(fixed)) if len(fixed) == 1 else ""
