"""Clauses about the recipe: values to use, what stays as it is, what is to be avoided."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuneloop.agents.steering.bounds import HIGH, LOW, NOT, bounds, direction
from tuneloop.agents.steering.clause import Clause, as_value, numbers_of
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.switches import ALWAYS, OFF, turned
from tuneloop.core.directive import Avoid, Keep, Meaning, Use
from tuneloop.core.experiment import Value

KEEP = re.compile(
    r"\b(?:keep(?:ing)?|leav(?:e|ing)|hold(?:ing)?|hands off|"
    r"lock(?:ing)?|freez(?:e|ing)|fix(?:ing)?|pin(?:ning)?|stays?|remains?|unchanged|constant|alone|"
    r"off limits|as (?:it|they) (?:is|are|was|were)|fixed)\b"
)

UNTOUCHED = re.compile(
    r"\b(?:touch\w*|chang\w*|modif\w*|alter\w*|adjust\w*|tun(?:e|es|ing)\b|vary|varying|mess|mess\w*|"
    r"play\w*|fiddl\w*|tinker\w*|mov(?:e|ing)|edit\w*|meddle|tweak\w*|hands off|off limits|taboo|alone)\b"
)

DOING = re.compile(
    r"\b(?:try|trying|test|use|using|set|go (?:with|for|to)|switch|change|take|give|make|pick|choose|run|"
    r"train|start|put|have|want|like|prefer|need|experiment with|raise|lower|increase|decrease|reduce|"
    r"bump|drop|push|"
    r"crank|dial|turn|enable|disable|activate|deactivate|apply|with|should be|shall be|must be|to be|"
    r"has to be|how about|what about|what if|why not|suggest|propose|recommend|next time|this time|from (?:now|here) on|"
    r"for (?:all|every|each|the (?:rest|remaining))|next|let|keep|"
    r"stick|stay|always|only|fix|pin|lock|hold|at|move|double|halve|cut|instead|swap|replace|exchange|"
    r"substitute|bring|shot|go|performs?|behaves?|does|works?|see|check out|evaluate|"
    r"benefit)\b|=|:"
)

THING = re.compile(r"<([pvn]\d+)>")

RELATIVE = re.compile(r"\bby (?:more )?<n\d+>|\b(?:times|factor)\b|<p\d+> more\b|\bmore <p\d+>")

EITHER = re.compile(r"<[nv]\d+>(?: \w+)? or (?:\w+ )?<[nv]\d+>")


def recipes(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """What the clause wants of parameters; () when that is not clear."""
    if not clause.has(r"<[pv]\d+>") or clause.has(r"<[stmke]\d+>"):
        return ()
    return bounds(clause) or kept(clause) or turned(clause, known) or used(clause)


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
    denied = NOT.search(text) or OFF.search(text)
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
