"""What a question is about, and what only looks like one."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause, numbers_of

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
OFFER = re.compile(
    r"^(?:how about|what about|what if (?:we|you) (?:use|try)|why not|why do not (?:you|we)|can (?:you|"
    r"we)|could (?:you|we)|would you|will you)\b"
)
CLOCK = re.compile(r"\b(?:at|by|until|till|before|after) <n|<n\d+> ?(?:am|pm|o'clock)\b")
EXPERIMENT = r"(?:experiment|number|attempt|run|nr\.?|no\.?|#)\s*(?:<n(?P<n>\d+)>|#?(?P<d>\d+))"


def experiment_of(clause: Clause, newest: int) -> int | None:
    """The number of the experiment that it names: `why did experiment 2 fail`, `why did 2 fail`."""
    match = re.search(EXPERIMENT, clause.text)
    if match is None:
        numbers = numbers_of(clause)
        if len(clause.things) == 1 and numbers and numbers[0] in range(1, newest + 1) and not CLOCK.search(clause.text):
            return int(numbers[0])
        nth = re.search(rf"\b({'|'.join(ORDINALS)}) (?:one|experiment|attempt|try|run|round)\b", clause.text)
        return ORDINALS.index(nth[1]) + 1 if nth else None
    value = clause.things[f"n{match['n']}"] if match["n"] else float(match["d"])
    return int(value) if isinstance(value, float) and 0 < value < 1e6 else None
