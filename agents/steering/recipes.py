"""Clauses about the recipe: which values are wanted for which parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuneloop.agents.steering.bounds import HIGH, LOW, NOT, direction
from tuneloop.agents.steering.clause import Clause, as_value, numbers_of
from tuneloop.agents.steering.switches import ALWAYS, OFF
from tuneloop.core.directive import Avoid, Meaning, Use
from tuneloop.core.experiment import Value

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

REASON = re.compile(r"(?<=>) , [^<]*\b(?:was|were|had been) too \w+$")  # `set it to 5e-5, before it was too big`

LAST = re.compile(r"[ ,]+(?:and |then )+(?:stop|finish|end|quit) (?:after|when|once|then|there|here)\b.*$")  # no denial

THING = re.compile(r"<([pvn]\d+)>")

RELATIVE = re.compile(
    r"\bby (?:more )?<n\d+>|<p\d+> (?:plus|minus|add|[x*/]) ?<n\d+>|\b(?:times|factor)\b|<p\d+> more\b|\bmore <p\d+>"
)

EITHER = re.compile(r"<[nv]\d+>(?: \w+)? or (?:\w+ )?<[nv]\d+>")


BEHIND = re.compile(
    r"<[vn]\d+>.*\b(?:not|no|never|without)\b.*<[vn]\d+>|<[pvn]\d+> (?:but )?without (?:\w+ )?<[pv]\d+>|"
    r"<[vn]\d+>(?: \w+)? ?,? (?:not|no) (?!good|thanks|way|more|please)\w+$"
)
LISTED = re.compile(r"\b(?:not|no|never)\b[^,]*<[vn]\d+>[^,]* , (?!and|or|nor)[^,]*<[vn]\d+>")
STOPS = re.compile(r"[ ,]+(?:full stop|period)$")


def divided(text: str) -> bool:
    """Whether what it denies is only a part of what it names."""
    return bool(BEHIND.search(text) or LISTED.search(text))


def used(clause: Clause) -> tuple[Meaning, ...]:  # noqa: PLR0911 - one line a reading
    """Values for parameters, or values that are not wanted; every value must find its parameter."""
    text = STOPS.sub("", LAST.sub("", REASON.sub("", clause.text)))
    kept_part = re.split(r"\b(?:instead of|rather than)\b", text)[0]
    pairs = tuple(paired(clause)) or tuple(paired(Clause(clause.said, kept_part, clause.things)))
    if not pairs or loose(clause) or direction(text, denied=bool(NOT.search(text))):
        return ()
    if text != clause.text and not DOING.search(text):
        return ()
    denied = NOT.search(text) or OFF.search(text)
    if denied:
        if divided(text):
            return ()
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


def loose(clause: Clause) -> bool:
    """Whether its numbers are no values to use: relative, one or the other, ends of a range, or what is not to be taken."""
    text = clause.text
    compared = bool(numbers_of(clause)) and (HIGH.search(text) or LOW.search(text))
    either = EITHER.search(text) and not NOT.search(text)
    return bool(RELATIVE.search(text) or either or compared or re.search(r"\b(?:any|all|every)\b.* but <", text))


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
