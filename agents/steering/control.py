"""The run itself: going on, ending at last, and what wants a yes."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause
from tuneloop.agents.steering.known import Known
from tuneloop.core.directive import Finish, Meaning, Question, Revoke, dangerous

STOP = (
    r"(?:stop|finish|end|quit|halt|wrap (?:it |things |this |everything )?up|conclude|call it (?:a day|"
    r"quits)|be done|we are done|you are done|terminate|close)"
)
# `… and then stop`: what is before it comes first, and the stop is not for now.
AT_LAST = re.compile(rf"\b(?:then|after that|afterwards) (?:please )?{STOP}(?: it| everything)?$")
GO_ON = re.compile(
    r"^(?:resume|continue|carry on|go on|keep going|keep on|proceed|unpause|do not stop(?: after (?:this|"
    r"that)(?: one)?)?|keep (?:searching|trying|working|experimenting)|go on (?:searching|trying)|"
    r"do not finish(?: yet)?)(?: (?:the run|it|now|with (?:the|this) run|working|searching|then|anyway))*$"
)
DANGER = re.compile(
    r"\b(?:delet\w*|eras\w*|wip(?:e|es|ed|ing)\b|purg\w*|destroy\w*|rm\b|unlink\w*|trash\w*|nuke\w*|"
    r"shred\w*|publish\w*|upload\w*|push (?:it|this|that|the|to|everything|all|model|my|our)|push.to.hub|"
    r"hugging ?face|"
    r"spend\w*|buy\w*|pay\b|paid\b|purchase\w*|release (?:it|the model|the weights)|make (?:it|"
    r"the model) public|clean (?:up|out)|free (?:up )?(?:some )?(?:disk|space))"
)


def grave(meaning: Meaning) -> bool:
    """Whether it wants a yes."""
    return meaning.kind in ("delete", "publish", "extend") and dangerous(meaning)


def gone_on(known: Known) -> Meaning:
    """Going on takes back an end that was asked for; else it is what the run does anyway."""
    ends = tuple(d.id for d in known.directives if d.state == "open" and isinstance(d.wish, Finish))
    return Revoke(ids=ends) if ends else Question(about="status")


def spelled(clause: Clause, text: str) -> str:
    """A part of the tagged text in words again: what numbers and counts it names."""
    return re.sub(r"<(\w\d+)>", lambda match: _word(clause, match[1]), text)


def _word(clause: Clause, tag: str) -> str:
    thing = clause.things[tag]
    if tag[0] == "e":
        return f"{thing:g} experiments"
    return f"{thing:g}" if isinstance(thing, float) else str(thing)
