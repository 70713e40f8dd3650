"""What stands beside a wish in its sentence: conditions, which nobody keeps, what others said, and `it`."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import tagged
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.plain import bare

CONDITION = re.compile(
    r"^(?:(?:if|unless|in case|in the event|depending on|the (?:moment|minute|second|day)|should|provided|only if|only when|"
    r"as long as|assuming|suppose)\b|"
    r"(?:once|when|whenever|as soon as|until|till|while|after)\b(?! (?:further notice|i say|i tell|told|"
    r"(?:this|that|it|the (?:current|open|running))\b|you (?:start|begin|train|run|do|try|launch))))"
)
HEARSAY = re.compile(
    r"(?<!\bi )\b(?:(?:was|were|is|are) saying|mentioned|claim(?:s|ed|ing)?|reckons?|swears?|heard|suggested|recommend(?:s|ed))\b|"
    r"\b(?:apparently|supposedly|rumou?r)"
)
SUPPOSED = re.compile(
    r"\b(?:if|unless|provided|assuming|in case|suppose|whether|wonder\w*|imagine|hypothetical\w*|"
    r"what would happen|would it|(?:he|she|they|someone|somebody|my \w+|people|everyone|boss|"
    r"colleague) (?:said|says|told|tells|wants|wanted|asked|thinks?|suggests?))\b"
)
POINTS = re.compile(r"\b(?:it|that|this)\b")


def conditional(part: str) -> bool:
    """Whether the rest of its sentence holds under a condition only."""
    return CONDITION.match(bare(part)) is not None


def judged(part: str, known: Known) -> str:
    """The one parameter of which it says what is wrong, as it is called: `context length 2k is too short`; "" for none."""
    clause = tagged(bare(part), known)
    names = [str(name) for name in clause.all("p")]
    said = re.search(r"\b(?:is|was|seems?|looks?|feels?|are)\b .*\b(?:too|very|quite|rather|pretty|so)\b", clause.text)
    return names[0].replace("_", " ") if len(names) == 1 and said else ""


def pointed(part: str, name: str) -> str:
    """The part with the parameter in the place of `it`."""
    return POINTS.sub(name, part, count=1)
