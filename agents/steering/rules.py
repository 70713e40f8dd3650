"""One clause by rules: exact where they know the words, unclear where they do not."""

from __future__ import annotations

import re

from tuneloop.agents.steering.amounts import amounts
from tuneloop.agents.steering.asking import OFFER, question
from tuneloop.agents.steering.beside import conditional
from tuneloop.agents.steering.clause import Clause, tagged
from tuneloop.agents.steering.control import AT_LAST, approval, control, dangerous_words, ends
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.plain import bare
from tuneloop.agents.steering.recipes import recipes
from tuneloop.agents.steering.replies import reply, revocation
from tuneloop.agents.steering.sources import sources
from tuneloop.core.directive import Finish, Focus, Meaning, Unclear, dangerous

SUPPOSED = re.compile(
    r"\b(?:if|unless|provided|assuming|in case|suppose|whether|wonder\w*|imagine|hypothetical\w*|"
    r"(?<!\bi )(?:mentioned|claim(?:s|ed)?|reckons?|swears?|heard|suggested|recommend(?:s|ed))\b|apparently|supposedly|rumou?r|"
    r"what would happen|would it|(?:he|she|they|someone|somebody|my \w+|people|everyone|boss|"
    r"colleague) (?:said|says|told|tells|wants|wanted|asked|thinks?|suggests?))\b"
)
IDEA = re.compile(
    r"^(?:focus|put (?:more|less|the) (?:emphasis|weight|stress|focus)|concentrate|try|consider|explore|look (?:at|"
    r"into)|pay|emphasi[sz]e|prioriti[sz]e|work on|"
    r"prefer|experiment with|investigate|think about|care about|aim|go (?:for|bolder|smaller|easy)|"
    r"be (?:more|less|bolder|careful|conservative|creative)|"
    r"i (?:think|believe|suspect|guess|feel|suggest|bet)|idea|hint|tip|note|keep in mind|bear in mind|"
    r"remember|the (?:problem|issue|trick|key|model|answers?|data|rows|outputs?) (?:is|are|may|might|"
    r"seems?|should)|it (?:seems|looks|might|may|could)|"
    r"use|raise|lower|increase|decrease|reduce|make|get|improve|mix|more|less|fewer|clean|filter|balance|"
    r"shorten|try out|give more|train (?:longer|shorter|more|less|harder)|longer|shorter|smaller|bigger|"
    r"higher)\b"
)
Found = tuple[Meaning, ...]


def of_clause(said: str, known: Known, *, asks: bool, asked: bool = False) -> Found:  # noqa: PLR0911 - one line a reading
    """One clause, read by the first reader that understands it; `asked`: its sentence ends in a question mark."""
    raw, text = said.strip(" ,"), bare(said)
    unclear = (Unclear(text=raw),)
    if answer := reply(text, raw, known, asks=asks or asked):
        return answer
    if not text:
        return unclear
    clause = tagged(text, known)
    if AT_LAST.search(clause.text) and not ends(clause.text):
        return unclear
    if found := revocation(clause, known):
        return found
    if SUPPOSED.search(clause.text) and not OFFER.match(raw):
        return question(clause, raw, asks=True) or unclear
    if not asks and not clause.has(r"<[pvs]\d+>") and (found := early(clause)):
        return found
    if found := question(clause, raw, asks=asks):
        return found
    if conditional(raw):
        return control(clause, known) or unclear
    for found in (control(clause, known), sources(clause, raw), amounts(clause, known), recipes(clause, known)):
        if found:
            return unclear if (asks or asked) and any(map(grave, found)) else found
    return idea(clause)


def grave(meaning: Meaning) -> bool:
    """Whether it wants a yes."""
    return meaning.kind in ("delete", "publish", "extend") and dangerous(meaning)


def clear(found: Found) -> bool:
    """Whether everything was understood."""
    return not any(isinstance(meaning, Unclear | Focus) for meaning in found)


def early(clause: Clause) -> Found:
    """What begins like a question and is none: `when this is over, stop`, `let me see the plan first`."""
    if dangerous_words(clause):
        return ()
    return (Finish(),) if ends(clause.text) else approval(clause.text)


def idea(clause: Clause) -> Found:
    """What is meant for who plans, in its own words."""
    if IDEA.match(clause.text) and len(clause.text.split()) > 1 and not re.search(r"<[mket]\d+>", clause.text):
        return (Focus(text=clause.said),)
    return (Unclear(text=clause.said),)
