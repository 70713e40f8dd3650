"""Yes and no to what waits, and wishes taken back."""

from __future__ import annotations

import re

from tuneloop.agents.steering.asking import ORDINALS
from tuneloop.agents.steering.clause import Clause
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.numbers import WORDS
from tuneloop.core.directive import Approve, Bound, Directive, Extend, Finish, Meaning, Reply, Revoke, Sources

SURE = (
    r"(?:yes|yep|yeah|yup|y|aye|do it|do that|go ahead|go for it|confirm(?:ed)?|approved?|i (?:approve|"
    r"confirm|agree)|agreed|granted|permission granted|lgtm|affirmative|absolutely|definitely|of course|"
    r"by all means|please do|sounds good|looks good|go on|proceed|continue|make it so|that is (?:right|"
    r"correct|fine)|correct)"
)
WEAK = r"(?:ok|okay|k|sure|fine|alright|all right|good|right|great|fine by me|fine with me)"
POLITE = (
    r"(?:please|thanks|thank you|do it|do that|go ahead|go for it|go on|i am sure|that is (?:fine|ok|okay|"
    r"right|correct)|it|this|that|the plan|you can|sure|now|then|with it|with that|for it)"
)
FIRM = re.compile(rf"\b{SURE}\b")
YES = re.compile(
    rf"^(?:(?:{WEAK}[ ,]+)*{SURE}|{WEAK})(?:[ ,]+(?:{SURE}|{POLITE}))*(?:[ ,:-]+(?P<why>(?:because|since|"
    rf"looks (?:good|fine|right)|i (?:trust|like))\b.*))?$"
)
NO = re.compile(
    r"^(?:no way|no thanks|no thank you|no|n|nope|nah|never mind|nevermind|never|do not(?: do (?:it|"
    r"that))?|cancel(?: (?:it|that))?|"
    r"reject(?:ed)?|i reject(?: (?:it|that|this))?|refuse[d]?|denied|deny|decline[d]?|not now|not yet|"
    r"no way|better not|rather not|i would rather not|"
    r"leave it(?: alone)?|leave it be|skip (?:it|that)|stop that|please do not|forget it|forget that|"
    r"absolutely not|definitely not|of course not|disagree|i disagree|veto|not (?:this|that) one|"
    r"certainly not|let us not|negative)\b"
    r"(?:(?:\s*[,:-]\s*|\s+(?=because|since|i|it|that|this|thanks|too)\b)(?P<why>.+))?$"
)
HEDGE = re.compile(
    r"\b(?:but|if|only|unless|except|wait|not|maybe|perhaps|however|although|first|later|instead|until|"
    r"before|after|sure\?|when|once|as (?:soon|long)|tomorrow|tonight|bad|wrong|terrible|no|private|mind)\b"
)
TAKE = (
    r"(?:forget|undo|revoke|cancel|ignore|take back|lift|withdraw|scrap|scratch|disregard|retract|drop|"
    r"remove|clear|delete|discard|reset|abandon|rescind|end|waive|abolish|never mind|nevermind|release)"
)
WISH = (
    r"(?:directives?|wish(?:es)?|rules?|instructions?|constraints?|orders?|requests?|restrictions?|"
    r"limits?|bounds?|caps?|ban|bans|ceiling|floor|condition)"
)
LIMIT = r"(?:limits?|caps?|ceiling|bounds?|floor|maximum|minimum)"
SAID = (
    r"(?:what(?:ever)? i (?:\w+ )?(?:said|asked|told|wanted|wrote|ordered|requested)|my (?:\w+ )?(?:wish|"
    r"wishes|request|requests|instruction|instructions|rule|rules|words|message|order|orders|directive|"
    r"directives))"
)
TAKEN = re.compile(rf"^{TAKE}\b(?P<what>.*)$|^take (?P<back>.*?) ?back$")
NEWEST = re.compile(
    rf"^(?:that|it|this|the last(?: (?:one|thing|{WISH}|message))?|my last(?: \w+)?|last(?: one| {WISH})?|"
    rf"{SAID}|the (?:latest|newest|previous)(?: (?:one|{WISH}))?|what i (?:just )?(?:said|asked)(?: last|"
    rf" before| just now)?|that last (?:one|thing|{WISH})|the {WISH})?(?: again| please)?$"
)
NTH = re.compile(rf"^(?:the |my )?(?:({'|'.join(ORDINALS)})|(\d{{1,3}})(?:st|nd|rd|th)) (?:one|{WISH})$")
UNKNOWN = ("?",)
ALL = re.compile(
    rf"^(?:all|everything|every|any)(?: of)?(?: (?:my|the|those|these))?(?: (?:{WISH}|i (?:\w+ )?(?:said|"
    rf"asked|told you|wanted)))*(?: so far)?$"
)
FREE = re.compile(
    r"\b(?:may|can|are allowed to|are free to|feel free to) (?:\w+ )?(?:touch|change|tune|use|raise|lower|"
    r"vary|move|read|train on|go above|go below|try)\b.*\bagain\b|\b(?:is|are) (?:free|allowed|ok|okay|"
    r"fine|back in|open) (?:again|after all)\b|"
    r"\b(?:no longer|not any ?more) (?:limited|restricted|bound|fixed|forbidden|banned|off limits|"
    r"appl\w*|holds?|counts?|valid|needed|"
    r"matters?|in force|required)\b|\b(?:does|do) not (?:apply|hold|count|matter) any ?(?:more|longer)\b|"
    r"\b(?:can|may|should|has to) go\b|\b(?:is|are) lifted\b|"
    r"\bany <p\d+> is (?:fine|ok|okay)\b"
)


NAMED = {
    "publish": "publish|push|upload|release|send|share",
    "delete": "delete|remove|erase|wipe",
    "extend": "spend|extend|add",
}


def reply(text: str, raw: str, known: Known, *, asks: bool) -> tuple[Meaning, ...]:
    """Yes or no, where something waits for one. `raw`: with words of courtesy; a yes with an if or a but is none."""
    if not (known.pending or known.asked) or asks:
        return ()
    for said in (raw, text):
        if match := NO.match(said):
            return (Reply(yes=False, reason=reason(match["why"])),)
        if (match := YES.match(done(said, known))) and not HEDGE.search(said):
            return (Reply(yes=True, reason=match["why"] or ""),)
    return ()


def reason(why: str | None) -> str:
    """What is left when no is said twice: `nah, leave it`."""
    again = NO.match(why or "")
    return reason(again["why"]) if again else why or ""


def done(said: str, known: Known) -> str:
    """A yes that names what waits says no more than yes: `yes, publish it`."""
    words = NAMED.get(known.pending.wish.kind, "") if known.pending else ""
    return re.sub(rf"[ ,]+(?:and )?(?:{words}) (?:it|that|this|them)$", "", said) if words else said


def revocation(clause: Clause, known: Known) -> tuple[Meaning, ...]:  # noqa: PLR0911 - one line a reading
    """Wishes taken back: by number, by what they are about, the newest, or all; () where nothing is."""
    text = clause.text
    if FREE.search(text) and (ids := about(clause, known)):
        return (Revoke(ids=ids),)
    match = TAKEN.match(text)
    if match is None:
        return ()
    what = (match["what"] or match["back"] or "").strip(" ,")
    if nth := NTH.match(what):
        return (Revoke(ids=(str(ORDINALS.index(nth[1]) + 1 if nth[1] in ORDINALS else int(nth[2])),)),)
    numbers = re.findall(r"<n\d+>", what)
    if NEWEST.match(what):
        return (
            (Revoke(),)
            if what or re.match(r"(?:undo|revoke|take back|never ?mind|scratch|retract|withdraw|rescind)", text)
            else ()
        )
    if ALL.match(what):
        live = tuple(d.id for d in known.directives if d.state in ("open", "pending"))
        return (Revoke(ids=live or ("all",)),)
    if numbers and re.fullmatch(rf"(?:(?:the )?(?:{WISH}|number|nr\.?|no\.?|#|and|,|<n\d+>|[#]) ?)+", what):
        return (Revoke(ids=tuple(f"{clause.things[n[1:-1]]:g}" for n in numbers)),)
    if re.search(rf"\b{WISH}\b|{SAID}|\b(?:about|approval|approvals)\b", what) or re.match(
        r"(?:undo|revoke|take back|lift|withdraw|retract|rescind|waive)", text
    ):
        return (Revoke(ids=about(clause, known) or (topic(clause),)),)
    return ()


def revoked(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """The directives that a clause is about which is known to take something back; () where none is."""
    live = [d for d in known.directives if d.state in ("open", "pending")]
    numbers = {str(ORDINALS.index(word) + 1) for word in clause.text.split() if word in ORDINALS}
    numbers = numbers or {f"{number:g}" for number in clause.all("n") if isinstance(number, float)}
    if named := re.search(rf"\b{WISH} (?:number )?(one|two|three)\b", clause.text):
        numbers |= {f"{WORDS[named[1]]:g}"}
    if ids := about(clause, known) or tuple(d.id for d in live if d.id in numbers):
        return (Revoke(ids=ids),)
    if re.search(r"\b(?:all|every\w*|both|any\w*|whatever|whole|none|neither)\b", clause.text) and not clause.has(
        r"<[psv]\d+>"
    ):
        return (Revoke(ids=tuple(d.id for d in live) or ("all",)),)
    bounds = tuple(d.id for d in live if isinstance(d.wish, Bound))
    return (Revoke(ids=bounds),) if bounds and re.search(rf"\b{LIMIT}\b", clause.text) else ()


def topic(clause: Clause) -> str:
    """What no directive is about, as the answer names it."""
    named = [str(name) for name in clause.all("p")]
    return named[0] if named else UNKNOWN[0]


def about(clause: Clause, known: Known) -> tuple[str, ...]:
    """Ids of the living directives on what the clause names."""
    names = {str(name) for name in clause.all("p")} | {key for found in clause.all("v") for key, _ in found}  # type: ignore[attr-defined]
    live = [d for d in known.directives if d.state in ("open", "pending")]
    return tuple(d.id for d in live if _named(d, names) or _kind(d, clause))


def _named(directive: Directive, names: set[str]) -> bool:
    return getattr(directive.wish, "parameter", None) in names


def _kind(directive: Directive, clause: Clause) -> bool:  # noqa: PLR0911 - one line a reading
    wish, text = directive.wish, clause.text
    if clause.has(r"<p\d+>"):
        return False
    match wish:
        case Sources():
            said = {name for found in clause.all("s") for name in found}  # type: ignore[attr-defined]
            return bool(said & {*wish.only, *wish.never}) or bool(
                re.search(r"\b(?:sources?|data ?sets?|data|files?)\b", text)
            )
        case Finish():
            return bool(re.search(r"\b(?:stop|stopping|finish|finishing|end|ending|last one)\b", text))
        case Extend():
            return bool(
                re.search(
                    r"\b(?:time|hours?|minutes?|experiments?|extension|extra|budget|money|tokens?)\b|<[tekm]\d+>", text
                )
            )
        case Approve():
            return bool(re.search(r"\b(?:approv\w*|ask\w*|permission)\b", text))
        case Bound():
            return False
    return bool(wish.kind == "focus" and re.search(r"\b(?:focus|idea|hint)\b", text))
