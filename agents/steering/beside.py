"""What stands beside a wish in its sentence: reasons, which change nothing, conditions, which nobody keeps, and `it`."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import tagged
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.plain import bare

FIRST = (
    r"^(?:once|when|whenever|as soon as|as long as|if|unless|in case|should|provided|until|till|while|after|"
    r"only if|only when)\b"
)
CONDITION = re.compile(
    rf"{FIRST}(?! (?:further notice|i say|i tell|told|(?:this|that|it|the (?:current|open|running))\b|"
    r"you (?:start|begin|train|run|do|try|launch)))"
)
SAYS = (
    r"(?:is|are|was|were|go|goes|went|look|looks|looked|seems?|seemed|gets?|got|has|have|had|needs?|needed|wants?|did|does|"
    r"makes?|made|works?|worked|helps?|helped|takes?|took|runs?|ran|keeps?|kept|fits?|hurts?|costs?|explode[sd]?|"
    r"crashe[sd]|diverge[sd]?|fail(?:s|ed)?|feels?|felt|sounds?|can|could|will|would|should|must|think|guess|believe|like|"
    r"prefer|trust|bet|know|saw|read|heard|paid|tried)"
)
REASON = re.compile(
    rf"^(?:because|since|cause|cuz|as (?:it|we|i|they|the|this|that)\b|so that|otherwise|due to|thanks to|for the sake)\b|"
    rf"^(?:[a-z]+ ){{0,3}}[a-z]+ {SAYS}\b|^(?:it|that|this|i|we|they|you|there) {SAYS}\b"
)
BECAUSE = re.compile(r"^(?:because|since|cause|cuz|i need|we need)\b")
# Words with which a reason may take back what it stands beside, or add to it.
TWISTED = re.compile(
    r"\bthat is (?:it|all)\b|"
    r"\b(?:enough|not|no|never|nothing|without|but|except|unless|if|whether|only|instead|rather|kidding|joking|joke|mistake|"
    r"wrong|"
    r"please|you|until|stop|stops|then|too)\b(?! (?:fast|small|large|big|high|low|short|long|slow|"
    r"much|many|few|weak|noisy)\b)"
)
# What names a parameter and turns none: `linear decays too fast`.
JUDGES = re.compile(r"\btoo (?:fast|slow|small|large|big|high|low|short|long|weak|noisy|much)\b|\b(?:imo|imho)\b")
POINTS = re.compile(r"\b(?:it|that|this)\b")


def conditional(part: str) -> bool:
    """Whether the rest of its sentence holds under a condition only."""
    return CONDITION.match(bare(part)) is not None


def reason(part: str, known: Known) -> bool:
    """Whether it only says why: a statement that names no parameter, source or amount, and denies nothing."""
    text = bare(part)
    if re.match(FIRST, text) or not (REASON.match(text) or JUDGES.search(text)) or TWISTED.search(text):
        return False
    clause = tagged(text, known)
    if clause.has(r"<n\d+>") and not BECAUSE.match(text):
        return False  # `it should be 32` corrects
    return not clause.has(r"<[stmkeg]\d+>") and (JUDGES.search(text) is not None or not clause.has(r"<[pv]\d+>"))


def judged(part: str, known: Known) -> str:
    """The one parameter of which it says what is wrong, as it is called: `context length 2k is too short`; "" for none."""
    clause = tagged(bare(part), known)
    names = [str(name) for name in clause.all("p")]
    said = re.search(r"\b(?:is|was|seems?|looks?|feels?|are)\b .*\b(?:too|very|quite|rather|pretty|so)\b", clause.text)
    return names[0].replace("_", " ") if len(names) == 1 and said else ""


def pointed(part: str, name: str) -> str:
    """The part with the parameter in the place of `it`."""
    return POINTS.sub(name, part, count=1)
