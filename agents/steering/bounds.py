"""What bounds: at most or at least, and what denies."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause

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

BAD = re.compile(
    r"\b(?:wast\w*|pointless|useless|senseless|nonsense|overkill|silly|stupid|insane|crazy|mad|absurd|excessive|"
    r"harm\w*|bad|wrong|worse|worst|danger\w*|unstable|risky|unsafe|diverg\w*|unwanted|undesirable|unreasonable|"
    r"impossible|foolish|hopeless|out of the question)\b"
)

RAISED = "raise|bump|increase|crank|turn|dial|push|bring|set|move|go with|pull|get"


BETWEEN = re.compile(
    r"\b(?:between|from|in|within|range|inside|limited to|anywhere|somewhere|stay\w*|keep)\b.*?"
    r"<n\d+> ?(?:and|to|-|,|:|through) ?<n\d+>|<n\d+> ?(?:-|to|through) ?<n\d+>"
)
TURNED = re.compile(
    r"\b(?:change|raise|lower|go|move|switch|bump|drop|increase|decrease|prefer|instead|rather|outside|avoid)\b.*<n"
)


def both(clause: Clause) -> dict[str, float]:
    """Both ends, where the words say which is which; {} where they do not, or say what is left out."""
    text, numbers = clause.text, [clause.things[tag] for tag in re.findall(r"<(n\d+)>", clause.text)]
    first, second = (float(str(number)) for number in numbers)
    if BETWEEN.search(text) and not TURNED.search(text) and not denies(text) and first != second:
        return {"at_least": min(first, second), "at_most": max(first, second)}
    pieces = re.split(r"(?<=>) ?,? ?(?:(?:<p\d+>|\w+) )?(?:and|or|but|nor)\b", text)
    ends = [direction(piece, denied=denies(text)) for piece in pieces]
    if len(pieces) != 2 or set(ends) != {"at_most", "at_least"} or any(len(re.findall(r"<n", p)) != 1 for p in pieces):
        return {}
    found = dict(zip(ends, (first, second), strict=True))
    return found if found["at_least"] < found["at_most"] else {}


def denies(text: str) -> bool:
    """Whether it says what shall not be."""
    return NOT.search(text) is not None or BAD.search(text) is not None


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
