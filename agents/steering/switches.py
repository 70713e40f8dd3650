"""Clauses that turn a parameter: on, off, twice or half as much."""

from __future__ import annotations

import re

from tuneloop.agents.steering.bounds import NOT
from tuneloop.agents.steering.clause import Clause, numbers_of
from tuneloop.agents.steering.known import Known
from tuneloop.core.directive import Avoid, Meaning, Use
from tuneloop.core.experiment import Value

ALWAYS = re.compile(
    r"\b(?:always|from (?:now|here) on|henceforth|in (?:all|every|each)|for (?:all|every|each)|every (?:time|"
    r"experiment|run)|all experiments|permanently|stick (?:to|with)|keep\w*|only|stay (?:with|at|on)|"
    r"throughout|forever|for good|for the rest|fix(?:ed)?|pin|lock|hold|remain\w*|exclusively|must be|has to be|"
    r"nothing but)\b"
)

ON = re.compile(r"\b(?:enable|activate|turn (?:\w+ )?on|switch (?:\w+ )?on)\b|<[pv]\d+> on\b")

OFF = re.compile(r"\b(?:disable|deactivate|turn (?:\w+ )?off|switch (?:\w+ )?off|without)\b|<[pv]\d+> off\b")

USED = re.compile(
    r"\b(?:use|using|with|in|try|trying|go (?:with|for)|apply|want|like|add|prefer|switch to) (?:the )?<p\d+>"
)

ALONE = re.compile(
    r"(?:(?:and|also|with|no|not|never|avoid|please|do) )*<p\d+>"
    r"(?: (?:for|in|on) (?:all|every|each|the (?:rest|remaining))\b.*| from (?:now|here) on| always| (?:this|next) time)?"
)

FACTORS = (
    (re.compile(r"(?:<n\d+>|three) quarters? of\b"), 0.75),
    (re.compile(r"\b(?:quadruple|4x)\b"), 4.0),
    (re.compile(r"\b(?:triple|thrice|treble|3x)\b"), 3.0),
    (re.compile(r"\b(?:double|twice|2x)\b"), 2.0),
    (re.compile(r"\b(?:a|one) third\b"), 1 / 3),
    (re.compile(r"\b(?:a|one) quarter\b"), 0.25),
    (re.compile(r"\b(?:a|one) tenth\b"), 0.1),
    (re.compile(r"\b(?:halve|half|in half)\b"), 0.5),
)
MULTIPLE = re.compile(
    r"<(n\d+)> times (?:bigger|larger|higher|longer|more|as|the|that|what|of|its|our|my|<p)|\btimes <(n\d+)>"
)


def factor(clause: Clause) -> float | None:
    """How many times as much is wanted: `double`, `a quarter of`, `four times as much`; None: no such word."""
    if match := MULTIPLE.search(clause.text):
        return float(str(clause.things[match[1] or match[2]])) if len(clause.all("n")) == 1 else None
    return next((value for pattern, value in FACTORS if pattern.search(clause.text)), None)


def turned(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """On, off, twice or half as much."""
    name, text = switchable(clause), clause.text
    always = ALWAYS.search(text) is not None
    if name and (times := factor(clause)):
        now = known.now.get(name)
        if NOT.search(text) or isinstance(now, bool | str) or now is None:
            return ()
        return (Use(parameter=name, value=scaled(now, times), always=always),)
    if not name or numbers_of(clause):
        return ()
    on, off = ON.search(text), OFF.search(text)
    if not on and not off and name in known.switches and clause.all("p"):
        return named_switch(name, text, always=always)
    if bool(on) == bool(off) or (on and NOT.search(text)) or re.search(r"\b(?:never|not)\b", text):
        return (Avoid(parameter=name, value=switch(name, on=True)),) if on and not off and NOT.search(text) else ()
    return (Use(parameter=name, value=switch(name, on=bool(on)), always=always),)


def switchable(clause: Clause) -> str:
    """The one parameter it names, or the one that a value in it switches on; "" where there is none or more."""
    names, values = clause.all("p"), clause.all("v")
    if len(names) == 1 and not values:
        return str(names[0])
    settings: tuple[tuple[str, Value], ...] = values[0] if len(values) == 1 and not names else ()  # type: ignore[assignment]
    return settings[0][0] if len(settings) == 1 and settings[0][1] is True else ""


def named_switch(name: str, text: str, *, always: bool) -> tuple[Meaning, ...]:
    """`use packing`, `in bf16`, `no packing`, or the name alone."""
    if NOT.search(text):
        return (
            (Avoid(parameter=name, value=switch(name, on=True)),) if USED.search(text) or ALONE.fullmatch(text) else ()
        )
    meant = USED.search(text) or ALONE.fullmatch(text)
    return (Use(parameter=name, value=switch(name, on=True), always=always),) if meant else ()


def switch(name: str, *, on: bool) -> Value:
    """What switches it on or off; what is called `disable_` says the opposite."""
    return on is not name.startswith("disable_")


def scaled(now: Value, factor: float) -> Value:
    """As a whole number where it was one."""
    value = float(now) * factor
    return max(1, round(value)) if isinstance(now, int) else float(f"{value:.3g}")
