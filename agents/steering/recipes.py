"""Clauses about the recipe: values to use, bounds, what stays as it is, what is to be avoided."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuneloop.agents.steering.clause import Clause, as_value, numbers_of
from tuneloop.agents.steering.known import Known
from tuneloop.core.directive import Avoid, Bound, Keep, Meaning, Use
from tuneloop.core.experiment import Value

NOT = re.compile(
    r"\b(?:never|not|no|without|avoid\w*|refrain|stop|nothing|unacceptable|too (?:much|many|high|large|"
    r"big|long|low|small|little|few)|neither|nor|forbid\w*|forbidden|"
    r"off limits|"
    r"hands off|quit|skip|stay away|keep away|leave out|exclude|ban|banned|prohibit\w*|must not|taboo|"
    r"veto)\b"
)
ABSOLUTE_HIGH = re.compile(
    r"\b(?:no|not) (?:more|higher|greater|larger|bigger|longer|further) than\b|\b(?:not|"
    r"never) (?:to )?(?:exceed|go over|over|above|beyond|be over|be above)\b|"
    r"\bat (?:the )?(?:very )?most\b|\bup to\b|"
    r"\bmax(?:imum|imal|imally)?(?: of| value| is| at)?\b|\bcap(?:ped|s)?\b|\blimit(?:ed|"
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
# `above 32 is a waste`: a judgement, which denies; `above 32 is fine`, or one that is not understood, bounds nothing.
JUDGED = re.compile(
    r"<n\d+>(?: <p\d+>)? (?:is|are|was|seems?|looks?|sounds?|feels?|would be|will be|gets?|makes?|leads?|tends?)\b(?P<how>.*)"
)
BAD = re.compile(
    r"\b(?:wast\w*|pointless|useless|senseless|nonsense|overkill|silly|stupid|insane|crazy|mad|absurd|excessive|"
    r"harm\w*|bad|wrong|worse|worst|danger\w*|unstable|risky|unsafe|diverg\w*|unwanted|undesirable|unreasonable|"
    r"impossible|foolish|hopeless|out of the question)\b"
)
LOW = re.compile(r"\b(?:below|under|beneath|underneath|(?:lower|less|smaller|fewer|shorter) than|south of)\b")
BETWEEN = re.compile(
    r"\b(?:between|from|in|within|range|inside|limited to)\b.*?<n\d+> ?(?:and|to|-|,|:) ?<n\d+>|"
    r"<n\d+> ?(?:-|to) ?<n\d+>"
)
KEEP = re.compile(
    r"\b(?:keep(?:ing)?|leav(?:e|ing)|hold(?:ing)?|hands off|"
    r"lock(?:ing)?|freez(?:e|ing)|fix(?:ing)?|pin(?:ning)?|stays?|remains?|unchanged|constant|alone|"
    r"off limits|as (?:it|they) (?:is|are|was|were)|fixed)\b"
)
UNTOUCHED = re.compile(
    r"\b(?:touch\w*|chang\w*|modif\w*|alter\w*|adjust\w*|tun(?:e|es|ing)\b|vary|varying|mess|mess\w*|"
    r"play\w*|fiddl\w*|tinker\w*|mov(?:e|ing)|edit\w*|meddle|tweak\w*|hands off|off limits|taboo|alone)\b"
)
ALWAYS = re.compile(
    r"\b(?:always|from now on|henceforth|in (?:all|every|each)|for (?:all|every|each)|every (?:time|"
    r"experiment|run)|all experiments|permanently|stick (?:to|with)|keep\w*|only|stay (?:with|at|on)|"
    r"throughout|forever|for the rest|fix(?:ed)?|pin|lock|hold|remain\w*|exclusively|must be|has to be|"
    r"nothing but)\b"
)
RAISED = "raise|bump|increase|crank|turn|dial|push|bring|set|move|go with|pull|get"
DOING = re.compile(
    r"\b(?:try|trying|test|use|using|set|go (?:with|for|to)|switch|change|take|give|make|pick|choose|run|"
    r"train|start|put|have|want|like|prefer|need|experiment with|raise|lower|increase|decrease|reduce|"
    r"bump|drop|push|"
    r"crank|dial|turn|enable|disable|activate|deactivate|apply|with|should be|shall be|must be|to be|"
    r"has to be|how about|what about|what if|why not|suggest|propose|recommend|next time|next|let|keep|"
    r"stick|stay|always|only|fix|pin|lock|hold|at|move|double|halve|cut|instead|swap|replace|exchange|"
    r"substitute|bring|shot|go|performs?|behaves?|does|works?|see|check out|evaluate|"
    r"benefit)\b|=|:"
)
ON = re.compile(
    r"\b(?:enable|activate|turn (?:\w+ )?on|switch (?:\w+ )?on|turn <p\d+> on|switch <p\d+> on|<p\d+> on)\b"
)
OFF = re.compile(
    r"\b(?:disable|deactivate|turn (?:\w+ )?off|switch (?:\w+ )?off|turn <p\d+> off|switch <p\d+> off|"
    r"<p\d+> off|without)\b"
)
TIMES = re.compile(
    r"\b(?P<twice>double|twice|2x)\b|\b(?P<half>halve|half|cut <p\d+> in half)\b|\b(?P<triple>triple|"
    r"thrice)\b|\b(?P<quadruple>quadruple)\b"
)
FACTOR = {"twice": 2.0, "half": 0.5, "triple": 3.0, "quadruple": 4.0}
THING = re.compile(r"<([pvn]\d+)>")
RELATIVE = re.compile(r"\bby (?:more )?<n\d+>|\b(?:times|factor)\b|<p\d+> more\b|\bmore <p\d+>")
EITHER = re.compile(r"<[nv]\d+>(?: \w+)? or (?:\w+ )?<[nv]\d+>")


def recipes(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """What the clause wants of parameters; () when that is not clear."""
    if not clause.has(r"<[pv]\d+>") or clause.has(r"<[stmke]\d+>"):
        return ()
    return bounds(clause) or kept(clause) or turned(clause, known) or used(clause)


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


def kept(clause: Clause) -> tuple[Meaning, ...]:
    """Parameters that nobody shall turn."""
    if numbers_of(clause) or clause.all("v") or not clause.all("p"):
        return ()
    text = clause.text
    denied = NOT.search(text) is not None
    hands = re.search(r"\b(?:hands off|off limits|taboo|alone)\b", text)
    if (
        (denied and UNTOUCHED.search(text))
        or hands
        or (
            not denied
            and KEEP.search(text)
            and not re.search(r"\b(?:keep|continue) (?:\w+ing)\b|\b(?:low|high|small|large|short|down|up)\b", text)
        )
    ):
        return tuple(Keep(parameter=str(name)) for name in dict.fromkeys(clause.all("p")))
    return ()


def turned(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """On, off, twice or half as much."""
    names, text = clause.all("p"), clause.text
    if len(names) != 1 or clause.all("v") or numbers_of(clause):
        return ()
    name, always = str(names[0]), ALWAYS.search(text) is not None
    if match := TIMES.search(text):
        now = known.now.get(name)
        if NOT.search(text) or isinstance(now, bool | str) or now is None:
            return ()
        return (Use(parameter=name, value=scaled(now, FACTOR[str(match.lastgroup)]), always=always),)
    on, off = ON.search(text), OFF.search(text)
    if bool(on) == bool(off) or (on and NOT.search(text)) or re.search(r"\b(?:never|not)\b", text):
        return (Avoid(parameter=name, value=switch(name, on=True)),) if on and not off and NOT.search(text) else ()
    return (Use(parameter=name, value=switch(name, on=bool(on)), always=always),)


def switch(name: str, *, on: bool) -> Value:
    """What switches it on or off; what is called `disable_` says the opposite."""
    return on is not name.startswith("disable_")


def scaled(now: Value, factor: float) -> Value:
    """As a whole number where it was one."""
    value = float(now) * factor
    return max(1, round(value)) if isinstance(now, int) else float(f"{value:.3g}")


def used(clause: Clause) -> tuple[Meaning, ...]:  # noqa: PLR0911 - one line a reading
    """Values for parameters, or values that are not wanted; every value must find its parameter."""
    text = clause.text
    kept_part = re.split(r"\b(?:instead of|rather than)\b", text)[0]
    pairs = tuple(paired(clause)) or tuple(paired(Clause(clause.said, kept_part, clause.things)))
    if (
        not pairs
        or (EITHER.search(text) and not NOT.search(text))
        or RELATIVE.search(text)
        or direction(text, denied=bool(NOT.search(text)))
        or (numbers_of(clause) and (HIGH.search(text) or LOW.search(text)))
    ):
        return ()
    denied = NOT.search(text)
    if denied:
        if re.search(
            r"<[vn]\d+>.*\b(?:instead of|rather than|not)\b.*<[vn]\d+>|\b(?:instead of|"
            r"rather than)\b.*<[vn]\d+>.*<[vn]\d+>",
            text,
        ):
            return ()
        if re.search(r"\b(?:not|never) (?:only|just|necessarily|sure|bad|yet)\b|\bwhy not\b|\bnothing but\b", text):
            return tuple(Use(parameter=p, value=v, always=True) for p, v in pairs) if "nothing but" in text else ()
        return tuple(Avoid(parameter=p, value=v) for p, v in pairs)
    if swap := re.search(
        r"\b(?:swap|replace|exchange|substitute|switch(?: over)?(?: from)?|"
        r"change(?: from)?)\b.*?<v\d+>.*?\b(?:with|by|for|to) (.*)",
        text,
    ):
        pairs = tuple(paired(Clause(clause.said, swap[1], clause.things)))
    if re.search(r"\b(?:instead of|rather than)\b", text):
        first = text.split("instead of")[0].split("rather than")[0]
        pairs = tuple(paired(Clause(clause.said, first, clause.things)))
        if not pairs:
            return ()
    if not (
        DOING.search(text)
        or re.fullmatch(
            r"(?:(?:a|an|the|of|value|and|,|with|is|method|training|fine-?tuning|only|tuning) ?|<[pvn]\d+> ?)+", text
        )
    ):
        return ()
    if len({name for name, _ in pairs}) < len(pairs):
        return ()
    always = ALWAYS.search(text) is not None
    return tuple(Use(parameter=p, value=v, always=always) for p, v in pairs)


def paired(clause: Clause) -> Iterator[tuple[str, Value]]:
    """Each number with the parameter beside it, before or behind; nothing at all when one is left over."""
    found, open_name, open_value = list[tuple[str, Value]](), "", None
    for tag in THING.findall(clause.text):
        thing = clause.things[tag]
        if tag[0] == "v":
            settings: tuple[tuple[str, Value], ...] = thing  # type: ignore[assignment]
            if open_name and all(key != open_name for key, _ in settings):
                return
            open_name = ""
            found.extend(settings)
        elif tag[0] == "p" and open_value is not None:
            found.append((str(thing), open_value))
            open_value = None
        elif tag[0] == "p":
            if open_name:
                return
            open_name = str(thing)
        elif open_name:
            found.append((open_name, as_value(float(str(thing)))))
            open_name = ""
        elif open_value is None:
            open_value = as_value(float(str(thing)))
        else:
            return
    if open_value is None and (not open_name or any(key == open_name for key, _ in found)):
        yield from dict.fromkeys(found)
