"""Clauses that ask: why something failed, what is best, how much is left, what comes next, what was asked for."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause
from tuneloop.core.directive import Meaning, Question, Unclear

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
ASKS = re.compile(
    r"^(?:why|what|how|which|when|where|who|whose|is|are|was|were|did|does|do (?:you|we|i)|has|"
    r"have (?:you|we|i)|am i|should|shall|will|"
    r"would|could|can (?:you|i|we) (?:tell|show|explain|see|know|say)|any (?:news|updates?|progress|idea)|so what)\b"
)
TELL = re.compile(
    r"^(?:tell|show|explain|list|give|print|report|describe|summari[sz]e|remind|let me (?:see|know)|"
    r"i (?:want|would like) to (?:see|know)|what)\b"
)
OFFER = re.compile(
    r"^(?:how about|what about|what if (?:we|you) (?:use|try)|why not|why do not (?:you|we)|can (?:you|"
    r"we)|could (?:you|we)|would you|will you)\b"
)
FAILED = (
    r"(?:fail\w*|crash\w*|di(?:e|ed|es)\b|wrong|broke\w*|break\w*|error\w*|reject\w*|turned down|"
    r"not (?:\w+ |<\w+> )*?(?:accepted|taken|work\w*|better|good|improve\w*)|no good|bad|worse|go badly|"
    r"problem|trouble|"
    r"lost|did it not)"
)
EXPERIMENT = r"(?:experiment|number|attempt|run|nr\.?|no\.?|#)\s*(?:<n(?P<n>\d+)>|#?(?P<d>\d+))"
ABOUT = (
    (
        "failure",
        rf"\bwhy\b.*{FAILED}|\b(?:reason|cause|explain|what|how come|tell me)\b.*{FAILED}|^{FAILED}.*\bwhy\b|"
        rf"\bfailure\b|\bwhat happened\b|^why$|\bwhy did (?:it|that|this|the last)\b.*\bnot\b",
    ),
    (
        "directives",
        r"\bwhat i (?:\w+ )?(?:asked|said|told|wanted|ordered)\b|\b(?:did|have|had) i (?:\w+ )?(?:ask|asked|"
        r"say|said|tell|told|want|wanted|request|requested|order|"
        r"ordered|forbid|forbidden|set|given|give)\b|\b(?:my|the|open|active|current|all|which|any|"
        r"list) (?:\w+ )?(?:directives?|wishes|rules|instructions|constraints|orders|requests|restrictions|"
        r"limits)\b|^(?:directives|wishes|rules|instructions|constraints)$|^(?:list|show) (?:my |the |"
        r"all )?(?:directives|wishes|rules|constraints|instructions)\b",
    ),
    (
        "budget",
        r"\b(?:left|remain\w*|budget|eta|how much (?:time|longer|money|more)|how long (?:until|till|will|does|"
        r"is|more)|when (?:will|are|is|do|does|can)\b.*\b(?:done|finish\w*|over|ready|end\w*|complete\w*)|"
        r"how many (?:more )?(?:<e\d+>|experiments?|tries|rounds|attempts|tokens?|hours?|minutes?|days?|dollars?|"
        r"gpu hours?)|spent|used up|cost so far|"
        r"did (?:it|this|that|we) cost|how expensive)\b",
    ),
    (
        "plan",
        r"\b(?:what|which|whats)\b.*\b(?:next|plan\w*|will you|are you going to|going to try|intend\w*|"
        r"do you want|would you|(?:try|tried|do|happens?|comes?) (?:next|then|after\w*))\b|^(?:the |"
        r"your )?(?:plan|next)$|\b(?:show|tell|see)\b.*\b(?:plan|next|idea)\b|\byour (?:plan|next|idea|"
        r"hypothesis)\b|\bcurrent (?:plan|idea|hypothesis)\b",
    ),
    (
        "best",
        r"\b(?:best|top|highest|leading|leader|winner|winning|incumbent|ahead)\b|\bhow good\b|"
        r"\bwhy\b.*\b(?:accepted|taken|kept|won|wins)\b|"
        r"\bscores?\b(?!.*\bnext\b)|\bhow (?:much|far) (?:did|have|has) (?:it|we|you|the \w+) (?:improv\w*|"
        r"gain\w*)|\bimproved\b|\bresults?\b|\baccuracy\b|\bbetter than\b",
    ),
    (
        "help",
        r"^(?:help|commands?|manual|usage)(?: me)?$|\bwhat (?:\w+ ){0,4}?(?:can|could|may|do) (?:i|you) (?:say|ask|do|tell|"
        r"understand)\b|\bhow (?:do|can|does) (?:i|this|you) (?:talk|steer|work|use|speak|tell)\b|"
        r"\bwhat (?:do|can) you understand\b",
    ),
    (
        "status",
        r"\b(?:status|progress|state|update|report|going|doing|happening|how far|where (?:are|do|is)|up to|"
        r"running|on with|working on|alive|nearly|almost|close|still (?:there|running|training|at it)|news|"
        r"stand\w*|summary|"
        r"overview|so far|done|finished|which <e\d+>|which experiment|current|what is up|what is new|"
        r"how is (?:it|everything|this))\b|\b(?:take|takes|taking|took|needs?)\b.*\b(?:long|longer|forever|ages|time)\b",
    ),
)


def question(clause: Clause, raw: str, *, asks: bool) -> tuple[Meaning, ...]:
    """What is asked; () for what is no question. A question that is not understood is unclear: it never changes anything.

    `raw`: the clause with its words of courtesy; `asks`: whether it ended in a question mark.
    """
    text = clause.text
    short = len(text.split()) <= 4
    starts = ASKS.match(text) or TELL.match(text)
    if (
        OFFER.match(raw)
        and not re.match(
            r"(?:can|could|would|will) (?:you|we) (?:tell|show|explain|list|give me|report|remind|summari)", raw
        )
        and not _about(text, ("failure", "directives"))
    ):
        return ()
    if not (starts or asks or short):
        return ()
    if clause.has(r"<[pvs]\d+>") and not _about(text, ("failure", "directives")):
        return (Unclear(text=clause.said),) if (ASKS.match(text) or asks) else ()
    about = _about(text, tuple(name for name, _ in ABOUT))
    if about is None:
        return (Unclear(text=clause.said),) if (ASKS.match(text) or asks) else ()
    if not (starts or asks) and not _bare(text, about):
        return ()
    return (Question(about=about, experiment=experiment_of(clause)),)


def _bare(text: str, about: str) -> bool:
    """Whether a few words that ask nothing by themselves are a question all the same: `status`, `the best so far`."""
    return about in ("status", "help", "directives", "budget", "best", "plan", "failure") and bool(
        re.fullmatch(
            r"(?:the |your |my |any |a |all |current |open |quick )*(?:status|progress|update|news|report|summary|"
            r"overview|help|commands?|directives|wishes|rules|"
            r"constraints|instructions|budget|eta|time left|money left|tokens left|remaining (?:time|budget)|best|"
            r"best (?:model|score|result|experiment|one)|score|scores|results?|plan|next|next (?:step|plan|idea)|"
            r"failure|last failure)"
            r"(?: update| report| please| so far| now| left)*",
            text,
        )
    )


def _about(text: str, kinds: tuple[str, ...]) -> str | None:
    return next((name for name, pattern in ABOUT if name in kinds and re.search(pattern, text)), None)


def experiment_of(clause: Clause) -> int | None:
    """The number of the experiment that it names."""
    match = re.search(EXPERIMENT, clause.text)
    if match is None:
        nth = re.search(rf"\b({'|'.join(ORDINALS)}) (?:one|experiment|attempt|try|run|round)\b", clause.text)
        return ORDINALS.index(nth[1]) + 1 if nth else None
    value = clause.things[f"n{match['n']}"] if match["n"] else float(match["d"])
    return int(value) if isinstance(value, float) and 0 < value < 1e6 else None
