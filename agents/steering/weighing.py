"""One clause: what it is most like of what it can mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuneloop.agents.steering.asking import OFFER
from tuneloop.agents.steering.beside import HEARSAY, SUPPOSED, conditional
from tuneloop.agents.steering.bounds import NOT, denies, direction
from tuneloop.agents.steering.clause import Clause, tagged
from tuneloop.agents.steering.contrary import let_back
from tuneloop.agents.steering.control import AT_LAST, GO_ON, gone_on, grave
from tuneloop.agents.steering.filling import Found, doubtful, fill
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.likeness import SEVERAL, frame, learnt
from tuneloop.agents.steering.plain import bare, cuts
from tuneloop.agents.steering.recipes import DOING, used
from tuneloop.agents.steering.replies import about, reply
from tuneloop.agents.steering.switches import OFF, turned
from tuneloop.core.directive import Avoid, Unclear

# How likely a reading must be, of 1. What ends, stops or takes back something wants more, what changes nothing less; what
# removes or publishes waits for a yes, and its own words must be there besides.
LIKELY = 0.33
LEAST = {
    "delete": 0.5,
    "publish": 0.5,
    "approve_none": 0.6,
    "pause": 0.5,
    "finish": 0.45,
    "revoke": 0.45,
    "revoke_newest": 0.5,
    "focus": 0.25,
}
NEVER = 2.0
SURE = 0.9  # of what stands beside an `if`
OPPOSITE = {"only": "never", "never": "only", "approve_none": "approve_plan", "avoid": "use", "use": "avoid"}
CLEARLY = 1.5
NO_IDEA = 0.15
FALLBACK, MUST = 0.2, 0.5
TOLD = re.compile(
    r"(?:\w+ ,)?(?:so )?(?:first|here|i|we|it|they|he|she|this|that|there|the|our|my|someone|somebody|everybody|people|users|"
    r"customers|saw|read|had|got|nothing|no one|nobody|most|many|some|more than|both|otherwise)\b"
)
# `I want to see if it holds`, `you can use them again`: why, or the same once more.
TOLD_AGAIN = re.compile(
    r"(?:so )?(?:(?:i|we) (?:want|need|would like|am curious|are curious) to (?:see|know|check|find out|compare|understand)|"
    r"you (?:can|may|are (?:free|allowed) to) (?:\w+ )?(?:them|it|those|these))\b"
)
LOST = 0.7  # of what is taken to mean nothing, though it names something
WHY = re.compile(r"(?:because|cause|cuz|since|so that|given that|due to|thanks to|otherwise)\b")
JUDGES = re.compile(  # `linear decays too fast`
    r"\btoo (?:fast|slow|small|large|big|high|low|short|long|weak|noisy|much)\b|\b(?:imo|imho)\b"
)
BOUNDS = ("at_most", "at_least", "bound_both")
AT_A_TIME = ("finish", "approve_plan", "approve_launch", "approve_none")  # `once this is done, stop` is no condition


@dataclass(frozen=True)
class Reading:
    """What a clause means, () where it means nothing by itself, and how sure that is, 0 to 1."""

    means: Found
    sure: float


def weigh(said: str, known: Known, *, asks: bool, asked: bool = False) -> Reading:
    """The kind that it is most like of those whose needs it fills. `asks`, `asked`: it, its sentence ends in a question mark."""
    raw, text = said.strip(" ,"), bare(said)
    if not raw or gives_reason(raw):
        return Reading((), SURE)
    if answer := reply(text, raw, known, asks=asks or asked):
        return Reading(answer, 1.0)
    if GO_ON.match(text):
        return Reading((gone_on(known),), SURE)
    clause = tagged(text, known)
    shares = learnt().shares(frame(clause, asks=asks))
    several = shares.pop(SEVERAL)
    alone = {kind: share / (1 - several) for kind, share in shares.items()}
    offered = OFFER.match(raw) is not None

    def filled(shares: Mapping[str, float]) -> Iterator[tuple[str, Reading]]:
        for kind, share in likeliest(shares, clause, known):
            other = OPPOSITE.get(kind, "")
            if share < CLEARLY * shares.get(other, 0.0) and fill(other, clause, known):
                continue
            means = (
                fill(kind, clause, known) if share >= needed(kind, said, clause, orders=offered or not asks) else None
            )
            if asks and kind == "delete":
                continue  # an order is one
            if means is not None and not (asked and not offered and any(map(grave, means))):
                yield kind, Reading(means, share)

    for _, reading in filled(alone if len(cuts(said)) == 1 else shares):
        return reading
    for kind, reading in filled(alone):  # what could be several wishes is one where no cut makes better sense
        if reading.sure >= MUST and kind not in LEAST and reading.means:
            return Reading(reading.means, FALLBACK)
    return Reading((Unclear(text=clause.said or said),), NO_IDEA)


def gives_reason(raw: str) -> bool:
    """Whether it only says why, or what is wrong."""
    if WHY.match(raw):
        return len(cuts(raw)) == 1
    return JUDGES.search(raw) is not None and re.search(r"\d", raw) is None and DOING.search(raw) is None


def likeliest(shares: Mapping[str, float], clause: Clause, known: Known) -> list[tuple[str, float]]:
    """Kinds by share; which end of a bound is meant, and whether a value is, the words say where they can."""
    told = {**shares, **ends_of(shares, clause), **denied_of(shares, clause, known), **back_of(shares, clause, known)}
    return sorted(told.items(), key=lambda one: -one[1])


def ends_of(shares: Mapping[str, float], clause: Clause) -> dict[str, float]:
    """Shares of bounds, as the words tell them."""
    whole = sum(shares[kind] for kind in BOUNDS)
    if len(clause.all("n")) == 2:
        return {"at_most": 0.0, "at_least": 0.0, "bound_both": whole}
    if end := direction(clause.text, denied=denies(clause.text)):
        return {"at_most": 0.0, "at_least": 0.0, "bound_both": 0.0, end: whole}
    return {}


def denied_of(shares: Mapping[str, float], clause: Clause, known: Known) -> dict[str, float]:
    """Shares of values that are used or not, where a denial says which."""
    switched = turned(clause, known)
    if switched and OFF.search(clause.text) and not NOT.search(clause.text):  # `disable dora`
        return {"use": shares["use"] + shares["avoid"], "avoid": 0.0}
    values = () if switched else used(clause)
    if not values or not all(isinstance(value, Avoid) for value in values):
        return {}
    return {"use": 0.0, "use_always": 0.0, "avoid": shares["use"] + shares["use_always"] + shares["avoid"]}


def back_of(shares: Mapping[str, float], clause: Clause, known: Known) -> dict[str, float]:
    """`the forum posts are welcome again`: of data that a directive keeps out."""
    if not clause.has(r"<s\d+>") or not let_back(clause.text) or not about(clause, known):
        return {}
    mistaken = ("never", "only", "aside", "revoke")
    return {**dict.fromkeys(mistaken, 0.0), "revoke": sum(shares[kind] for kind in mistaken)}


def told(sentence: str, known: Known) -> bool:
    """Whether a sentence that is not understood only tells something, and names nothing: beside a wish it is no wish."""
    clause = tagged(bare(sentence), known)
    if TOLD_AGAIN.match(clause.text):
        return not clause.things
    named = clause.has(r"<[nstmkeg]\d+>") or (clause.things and DOING.search(clause.text))
    wished = re.search(
        r"\b(?:must|should|please|let|(?:i|we) (?:want|need|would (?:like|love|prefer))|try|ought)\b", clause.text
    )
    return TOLD.match(clause.text) is not None and not named and not wished and not doubtful(clause.text)


def needed(kind: str, said: str, clause: Clause, *, orders: bool) -> float:
    """How sure it must be: what is asked, stands under a condition, or is told of others, is rarely wished.

    `orders`: it is no question.
    """
    least = LEAST.get(kind, LIKELY)
    if kind == "aside":
        return NEVER if clause.has(r"<[tkmge]\d+>|^<\w\d+>$") else LOST if clause.has(r"<[pvsn]\d+>") else least
    if kind in ("delete", "publish", "unclear") or kind.startswith("ask_"):
        return least
    if HEARSAY.search(clause.text):
        return NEVER if kind != "focus" else least
    supposed = SUPPOSED.search(clause.text) and not OFFER.match(said.strip(" ,"))
    if kind in AT_A_TIME and not supposed:
        return LOST if conditional(said) else least
    if conditional(said) or (kind == "pause" and AT_LAST.search(clause.text)):
        return NEVER if kind != "focus" else least
    return least if orders and not supposed else max(least, SURE if kind != "focus" else least)
