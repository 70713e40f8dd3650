"""Finds what a question leaves out: `without galore or badam`, `lora, not multimodal`, `all but evaluation`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuneloop.tools.params.kinds import Item

FILLERS = frozenset(["any", "the", "a", "an", "use", "using", "used", "with", "need", "of", "for", "doing"])
JOINTS = frozenset(("or", "and", "nor"))
CUE = "without"


@dataclass(frozen=True)
class Token:
    """A phrase of the question: its text, the item that it is, its cues, and whether it means anything."""

    text: str
    item: Item | None = None
    cues: frozenset[str] = frozenset()
    known: bool = False


def left_out(tokens: Sequence[Token]) -> frozenset[int]:
    """Places of the tokens that say what is left out, from the word that says so to the last thing named."""
    found: set[int] = set()
    for start, token in enumerate(tokens):
        if CUE in token.cues and start not in found:
            end = _end(tokens, start)
            found |= set(range(start, end)) if end > start + 1 else set()
    return frozenset(found)


def _end(tokens: Sequence[Token], start: int) -> int:
    """Where the things named behind a negation end: one, more joined by or, and, nor; commas in a list that has these."""
    end = at = _thing(tokens, start + 1)
    listed = False
    while at > start + 1 and at < len(tokens):
        comma = tokens[at].text == ","
        joined = at + 1 < len(tokens) and comma and tokens[at + 1].text in JOINTS
        if (listed and comma and not joined) or (not comma and tokens[at].text not in JOINTS):
            break
        behind = _thing(tokens, at + 1 + joined)
        if behind == at + 1 + joined:
            break
        listed |= not comma or joined
        end, at = (behind if listed else end), behind
    return end


def _thing(tokens: Sequence[Token], at: int) -> int:
    """Behind the thing that stands at a place, fillers and further negations passed over; the place itself: none."""
    behind = at
    while behind < len(tokens) and (tokens[behind].text in FILLERS or CUE in tokens[behind].cues):
        behind += 1
    return behind + 1 if behind < len(tokens) and tokens[behind].item else at
