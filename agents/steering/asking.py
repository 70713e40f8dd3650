"""What a question is about, and what only looks like one."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
OFFER = re.compile(
    r"^(?:how about|what about|what if (?:we|you) (?:use|try)|why not|why do not (?:you|we)|can (?:you|"
    r"we)|could (?:you|we)|would you|will you)\b"
)
EXPERIMENT = r"(?:experiment|number|attempt|run|nr\.?|no\.?|#)\s*(?:<n(?P<n>\d+)>|#?(?P<d>\d+))"


def experiment_of(clause: Clause) -> int | None:
    """The number of the experiment that it names."""
    match = re.search(EXPERIMENT, clause.text)
    if match is None:
        nth = re.search(rf"\b({'|'.join(ORDINALS)}) (?:one|experiment|attempt|try|run|round)\b", clause.text)
        return ORDINALS.index(nth[1]) + 1 if nth else None
    value = clause.things[f"n{match['n']}"] if match["n"] else float(match["d"])
    return int(value) if isinstance(value, float) and 0 < value < 1e6 else None
