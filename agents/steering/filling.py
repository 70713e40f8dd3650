"""A kind of wish and a clause make a meaning, where the clause names what that kind needs and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from tuneloop.agents.steering.amounts import extended
from tuneloop.agents.steering.asking import experiment_of
from tuneloop.agents.steering.beside import HEARSAY, SUPPOSED
from tuneloop.agents.steering.bounds import NOT, both, denies, direction
from tuneloop.agents.steering.clause import Clause, numbers_of
from tuneloop.agents.steering.contrary import contrary
from tuneloop.agents.steering.control import DANGER, spelled
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.recipes import divided, loose, paired, used
from tuneloop.agents.steering.replies import UNKNOWN, revocation, revoked
from tuneloop.agents.steering.sources import sources
from tuneloop.agents.steering.switches import OFF, switch, switchable, turned
from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Delete,
    Finish,
    Focus,
    Keep,
    Meaning,
    Pause,
    Publish,
    Question,
    Revoke,
    Sources,
    Unclear,
    Use,
)

Found = tuple[Meaning, ...]
GRAVE = ("delete", "publish", "unclear", "several", "ask_budget", "more", "less", "total")
END = (
    r"(?= (?:to (?:free|make|save|get|give|clear)|because|since|so that|as|before|after|when|once|now|for (?:me|good|now)|"
    r"please)\b|$)"
)
REMOVE = re.compile(
    r"\b(?:delete|erase|wipe|purge|remove|throw (?:away|out)|get rid of|destroy|trash|bin|clear(?: out| away)?|clean (?:up|out)|"
    r"scrub|chuck(?: out| away)?|dump|discard|nuke|drop|toss(?: out)?|shred|scrap|dispose of|rm)\b "
    r"(?P<what>(?:[^,;]*?)\b(?:experiments?|runs?|checkpoints?|weights|models?|adapters?|logs?|caches?|cached|artifacts?|folders?|jobs?|results?|reports?|outputs?|files?|"
    r"states?|everything|disk|leftovers)\b[^,;]*?)(?: (?:from|off) (?:the |my |your )?(?:disk|drive|machine|server))?"
    + END
)
MIXED = re.compile(r"\b(?:but|except|rather|or|and (?:delete|keep|remove))\b")
SEND = re.compile(
    r"\b(?:publish|push|upload|release|share|send|ship|deploy|put|post|copy|transfer|hand|deliver|export|get|make)\b[^,;]*?"
    r"\b(?:it|this|that|models?|adapters?|weights|best|winner|results?|checkpoints?|tune|one)\b[^,;]*? ?"
    r"\b(?:to|on|onto|at|into|in|under|with|over to|up to|up on)\b (?P<to>[^,;]+?)" + END
)
TWICE = re.compile(
    r"\b(?:not|never|no longer|stop)\b(?: [^\s,]+){0,3} (?:disable|deactivate|avoid\w*|forbid\w*|banned|without|off|zero)\b"
    r"(?! the table| limits)"
)
CHOSEN = re.compile(
    r"\bbut\b|<[vn]\d+>.*\b(?:not|instead|rather)\b.*<[vn]\d+>|\bno longer\b|\bnot (?:too )?(?:bad|big|much)\b"
)
BEYOND = re.compile(r"\b(?:no|not|never|skip|without|forget|drop|cancel)\b")
AFTER = re.compile(r"\bafter (?:(?:experiments?|number|no\.?|#) )?<n")
NONE = re.compile(r"\b(?:no|not|without|never)\b")
GIVE = re.compile(r"\b(?:share|send|deploy|ship)\b[^,;]*\b(?:it|models?|adapters?|weights|winner|checkpoints?)\b")


def fill(kind: str, clause: Clause, known: Known) -> Found | None:
    """What the clause means as one of that kind: () means nothing and is understood, None: it is none of that kind."""
    if kind not in GRAVE and (DANGER.search(clause.text) or REMOVE.search(clause.text) or GIVE.search(clause.text)):
        return None  # it would be lost
    if contrary(kind, clause.text):
        return None
    found = FILLS[kind](clause, known)
    if any(isinstance(one, Use | Avoid) and mistyped(one, known) for one in found):
        return None
    return found or (None if kind != "aside" else ())


def mistyped(one: Use | Avoid, known: Known) -> bool:
    """Whether it is a number for what takes a word."""
    return one.parameter in known.worded and isinstance(one.value, int | float) and not isinstance(one.value, bool)


def clear(found: Found) -> bool:
    """Whether everything was understood."""
    return not any(isinstance(meaning, Unclear | Focus) for meaning in found)


def plain_wish(meaning: Meaning, clause: Clause, known: Known) -> Found:
    """A wish that names nothing, but for the open experiment."""
    own = re.sub(r"\b(?:(?:experiments?|number|no\.?|nr\.?|#) ?)?<(n\d+)>", "", clause.text)
    numbers = [clause.things[tag] for tag in re.findall(r"<(n\d+)>", clause.text)]
    if (
        isinstance(meaning, Finish) and BEYOND.search(clause.text) and not AFTER.search(clause.text)
    ):  # `no experiment 4`
        numbers = [number for number in numbers if not float(str(number)) > known.experiment]
    others = r"<[psvkmgn]\d+>" if isinstance(meaning, Pause) else r"<[psvtkmgn]\d+>"
    open_one = all(number == known.experiment for number in numbers)
    one_more = clause.has(r"<e\d+>") and not isinstance(meaning, Approve) and NONE.search(clause.text) is None
    return (meaning,) if open_one and not one_more and not re.search(others, own) else ()


def asked(about: str, clause: Clause, known: Known) -> Found:
    """A question."""
    return (Question(about=about, experiment=experiment_of(clause, known.experiment)),)


def use(clause: Clause, known: Known, *, always: bool) -> Found:
    """Values for parameters."""
    if clause.has(r"<[stmge]\d+>"):
        return ()
    found = turned(clause, known)
    if not found and loose(clause):
        return ()
    found = found or used(clause)
    if not found or not all(isinstance(meaning, Use) for meaning in found):
        pairs = tuple(paired(clause))
        once = len({name for name, _ in pairs}) == len(pairs)  # else one of them is rather why
        denied = NOT.search(clause.text) or OFF.search(clause.text)
        found = tuple(Use(parameter=name, value=value) for name, value in pairs) if once and not denied else ()
    if not found and (name := switchable(clause)) in known.switches:
        found = (Use(parameter=name, value=switch(name, on=True)),)
    wanted = [one for one in found if isinstance(one, Use)]
    return tuple(one.model_copy(update={"always": always}) for one in wanted)


def bound(clause: Clause, known: Known, *, high: bool, low: bool) -> Found:  # noqa: ARG001 - all fills are called alike
    """One parameter and its limits; of one the words say which end it is, if they can."""
    names, numbers = list(dict.fromkeys(clause.all("p"))), numbers_of(clause)
    if len(names) != 1 or len(numbers) != high + low or clause.has(r"<[svtmge]\d+>"):
        return ()
    if high and low:
        ends = both(clause)
        return (Bound(parameter=str(names[0]), **ends),) if ends else ()
    end = direction(clause.text, denied=denies(clause.text)) or ("at_most" if high else "at_least")
    return (Bound(parameter=str(names[0]), **{end: numbers[0]}),)


def keep(clause: Clause, known: Known) -> Found:
    """Parameters that stay as they are."""
    if clause.has(r"<[nsvtmge]\d+>") or turned(clause, known):
        return ()
    return tuple(Keep(parameter=str(name)) for name in dict.fromkeys(clause.all("p")))


def avoid(clause: Clause, known: Known) -> Found:
    """Values that are not wanted."""
    if clause.has(r"<[stmge]\d+>|\bonly\b"):
        return ()
    if TWICE.search(clause.text) or CHOSEN.search(clause.text) or divided(clause.text):
        return ()  # `never turn it off`, `not this but that`
    found = tuple(Avoid(parameter=name, value=value) for name, value in paired(clause))
    if not found and len(clause.all("p")) == 1 and clause.all("p")[0] in known.added:
        return (Use(parameter=str(clause.all("p")[0]), value=0),)
    if not found and (name := switchable(clause)) in known.switches:
        return (Avoid(parameter=name, value=switch(name, on=True)),)
    return found


def data(clause: Clause, known: Known, *, only: bool) -> Found:  # noqa: ARG001
    """Sources by name: those, or all but those."""
    if clause.has(r"<[pvntmge]\d+>"):
        return ()
    rules = sources(clause, clause.said)
    if rules and isinstance(rules[0], Sources):
        return rules if bool(rules[0].only) == only else ()
    if re.fullmatch(r"(?:(?:the|and|,) ?|<s\d+> ?)+", clause.text):
        return ()  # nothing is said of them
    names = tuple(dict.fromkeys(name for found in clause.all("s") for name in found))  # type: ignore[attr-defined]
    return ((Sources(only=names) if only else Sources(never=names)),) if names else ()


def extend(clause: Clause, known: Known, *, sign: int) -> Found:
    """More or less of what limits the run; with sign 0 a total."""
    found = extended(clause, known, sign)
    return (found,) if found else ()


def taken_back(clause: Clause, known: Known) -> Found:
    """Directives that are named; what they are about where no number is."""
    found = [one for one in revocation(clause, known) if isinstance(one, Revoke)]
    return tuple(found) if found and found[0].ids != UNKNOWN else revoked(clause, known) or tuple(found)


def newest(clause: Clause, known: Known) -> Found:  # noqa: ARG001
    """The last directive."""
    return () if clause.has(r"<[psvntmge]\d+>") else (Revoke(),)


def removal(clause: Clause, known: Known) -> Found:  # noqa: ARG001
    """What is to be removed, where a word for removing and one for what lies on a disk are said and nothing is denied."""
    match = REMOVE.search(clause.text)
    if match is None or doubtful(clause.text) or MIXED.search(match["what"]):
        return ()
    return (Delete(what=spelled(clause, match["what"])),)


def publication(clause: Clause, known: Known) -> Found:  # noqa: ARG001
    """Where the model is to be sent."""
    match = SEND.search(clause.text)
    if match is None or doubtful(clause.text):
        return ()
    name = re.search(r"\b(?:as|under|named|called) ([\w.-]+/[\w.-]+)$", clause.text)
    return (Publish(to=spelled(clause, name[1] if name else match["to"]).removeprefix("the ")),)


def doubtful(text: str) -> bool:
    """Whether it is denied, supposed, or told of others."""
    return any(pattern.search(text) for pattern in (NOT, SUPPOSED, HEARSAY))


def words(wanted: type[Focus] | type[Unclear], clause: Clause, known: Known) -> Found:  # noqa: ARG001
    """In its own words."""
    return (wanted(text=clause.said),)


FILLS: dict[str, Callable[[Clause, Known], Found]] = {
    "finish": partial(plain_wish, Finish()),
    "pause": partial(plain_wish, Pause()),
    **{f"approve_{at}": partial(plain_wish, Approve(at=at)) for at in ("plan", "launch", "none")},
    **{
        f"ask_{about}": partial(asked, about)
        for about in ("status", "failure", "best", "budget", "directives", "plan", "help")
    },
    "use": partial(use, always=False),
    "use_always": partial(use, always=True),
    "at_most": partial(bound, high=True, low=False),
    "at_least": partial(bound, high=False, low=True),
    "bound_both": partial(bound, high=True, low=True),
    "keep": keep,
    "avoid": avoid,
    "only": partial(data, only=True),
    "never": partial(data, only=False),
    "more": partial(extend, sign=1),
    "less": partial(extend, sign=-1),
    "total": partial(extend, sign=0),
    "revoke": taken_back,
    "revoke_newest": newest,
    "delete": removal,
    "publish": publication,
    "focus": partial(words, Focus),
    "unclear": partial(words, Unclear),
    "aside": lambda *_: (),
}
