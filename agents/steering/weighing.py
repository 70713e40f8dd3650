"""One clause: what it is most like, weighed with what the rules read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuneloop.agents.steering.asking import OFFER
from tuneloop.agents.steering.beside import conditional, reason
from tuneloop.agents.steering.clause import Clause, tagged
from tuneloop.agents.steering.filling import fill
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.likeness import SEVERAL, frame, learnt
from tuneloop.agents.steering.plain import bare, cuts
from tuneloop.agents.steering.rules import SUPPOSED, Found, clear, grave, of_clause
from tuneloop.core.directive import Avoid, Bound, Extend, Meaning, Question, Reply, Revoke, Sources, Unclear, Use

AGREED = 0.35  # what a rule's word is worth, as a share
LEAST = 0.33  # below it nothing is understood
SURE = 0.8  # of what stands beside an `if`
NO_IDEA = 0.15
PLAIN = 0.5  # of what wants a yes: its own words must be there besides
LOST = 0.7  # of what is taken to mean nothing, though it names something
WHY = re.compile(r"(?:because|cause|cuz|since|so that|given that|due to|thanks to)\b")
TIMED = ("finish", "approve_plan", "approve_launch", "approve_none", "ask_", "aside", "unclear")


@dataclass(frozen=True)
class Reading:
    """What a clause means, () where it means nothing by itself, and how sure that is, 0 to 1."""

    means: Found
    sure: float


def weigh(said: str, known: Known, *, asks: bool, asked: bool = False) -> Reading:
    """The kind with most of likeness and rules together whose needs the clause fills."""
    if not said.strip(" ,"):
        return Reading((), 1.0)
    if WHY.match(said.strip(" ,")):
        return Reading((), SURE)
    rules = of_clause(said, known, asks=asks, asked=asked)
    if rules and isinstance(rules[0], Reply):
        return Reading(rules, 1.0)
    clause = tagged(bare(said), known)
    ruled = "aside" if not clear(rules) and reason(said, known) else kind_of(rules, clause)
    shares = learnt().shares(frame(clause, asks=asks))
    best = Reading((Unclear(text=clause.said or said),), NO_IDEA)
    several = shares.pop(SEVERAL)
    if len(cuts(said)) == 1:
        shares = {kind: share / (1 - several) for kind, share in shares.items()}
    for kind, share in shares.items():
        sure = min(share + (AGREED if kind == ruled else 0.0), 1.0)
        if sure < max(best.sure, needed(kind, said, clause)):
            continue
        found = rules if kind == ruled and kind != "aside" else fill(kind, clause, known)
        if found is not None and not (asked and any(map(grave, found)) and not OFFER.match(said.strip(" ,"))):
            best = Reading(found, sure)
    return best


def needed(kind: str, said: str, clause: Clause) -> float:
    """How sure it must be: what stands under a condition, or is told of others, is rarely wished."""
    if kind == "aside":
        return 2.0 if clause.has(r"<[tkmge]\d+>") else LOST if clause.has(r"<[pvsn]\d+>") else LEAST
    if kind in ("delete", "publish"):
        return PLAIN
    if kind.startswith(TIMED):
        return LEAST
    if conditional(said):
        return 2.0
    return SURE if SUPPOSED.search(clause.text) and not OFFER.match(said.strip(" ,")) else LEAST


def kind_of(found: Found, clause: Clause) -> str:  # noqa: ARG001
    """The kind of likeness that a reading by rules is of; "" for what is unclear or of several kinds."""
    kinds = {_kind(meaning) for meaning in found}
    return kinds.pop() if len(kinds) == 1 else ""


def _kind(meaning: Meaning) -> str:  # noqa: PLR0911 - one line a kind
    match meaning:
        case Use():
            return "use_always" if meaning.always else "use"
        case Bound():
            if meaning.at_most is not None and meaning.at_least is not None:
                return "bound_both"
            return "at_most" if meaning.at_most is not None else "at_least"
        case Sources():
            return "only" if meaning.only else "never"
        case Extend():
            amounts = (meaning.seconds, meaning.experiments, meaning.tokens, meaning.money, meaning.gpu_hours)
            return "less" if min(amounts) < 0 else "more"
        case Question():
            return f"ask_{meaning.about}"
        case Revoke():
            return "revoke" if meaning.ids else "revoke_newest"
        case Avoid():
            return "avoid"
    if meaning.kind == "approve":
        return f"approve_{meaning.at}"
    return "" if meaning.kind == "unclear" else meaning.kind
