"""Words to meanings without a chat model; what is not understood is said to be unclear, never guessed."""

from __future__ import annotations

import re
from itertools import product

from tuneloop.agents.steering.amounts import amounts
from tuneloop.agents.steering.asking import OFFER, question
from tuneloop.agents.steering.beside import conditional, judged, pointed, reason
from tuneloop.agents.steering.bounds import NOT
from tuneloop.agents.steering.clause import Clause, tagged
from tuneloop.agents.steering.control import AT_LAST, approval, control, dangerous_words, ends
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.plain import after_joint, bare, cuts, plain, sentences
from tuneloop.agents.steering.recipes import DOING, recipes
from tuneloop.agents.steering.replies import reply, revocation
from tuneloop.agents.steering.sources import sources
from tuneloop.core.directive import Finish, Focus, Meaning, Pause, Reply, Revoke, Unclear, dangerous

SUPPOSED = re.compile(
    r"\b(?:if|unless|provided|assuming|in case|suppose|whether|wonder\w*|imagine|hypothetical\w*|"
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
LATER = re.compile(r"[ ,]*(?:and )?(?:then|after that|afterwards)\b")
QUOTED = re.compile(r"[\x00-\x08\x0b-\x1f]")
Found = tuple[Meaning, ...]


def understand(text: str, known: Known) -> Found:
    """Meanings of one message, in order; at least one. The same message is always read alike."""
    said = plain(QUOTED.sub(" ", text))
    found = list[Meaning]()
    whole = list(sentences(said))
    told = [sentence for sentence in whole if sentence.endswith("?") or not mere(sentence, known)]
    for sentence in told or whole:
        found += [meaning for meaning in of_sentence(sentence, known) if meaning not in found]
    if any(isinstance(meaning, Revoke) and meaning.ids for meaning in found):
        found = [meaning for meaning in found if meaning != Revoke()]  # `…, take that back` is said of the same
    unclear = [meaning for meaning in found if isinstance(meaning, Unclear)]
    if unclear and len(unclear) == len(found):
        return (Unclear(text=" ".join(text.split())[:500]),)
    return tuple(dict.fromkeys(found)) or (Unclear(text=" ".join(text.split())[:500]),)


def of_sentence(sentence: str, known: Known) -> Found:
    """The whole where it is clear, else the clearest way to cut it at its joints."""
    asks = sentence.endswith("?")
    sentence = sentence.rstrip("? ")
    sentence = without_reasons(sentence, known)
    whole = of_clause(sentence, known, asks=asks)
    pieces = cuts(sentence)
    if len(pieces) == 1:
        return whole
    at = next((i for i, piece in enumerate(pieces) if conditional(after_joint(piece))), None)
    if at is not None and not clear(whole):
        first, rest = "".join(pieces[:at]), "".join(pieces[at:])
        if at and re.match(r"[ ,]*(?:and|also|then|;)\b", rest):
            return (*of_sentence(first, known), Unclear(text=after_joint(rest)))
        return (Unclear(text=sentence),)
    best, fewest = whole, (0 if clear(whole) else len(pieces) + 2, -kinds(whole), 1)
    for joined in product((True, False), repeat=len(pieces) - 1):
        parts, later = [pieces[0]], [False]
        for piece, cut in zip(pieces[1:], joined, strict=True):
            if cut:
                parts.append(after_joint(piece))
                later.append(LATER.match(piece) is not None)
            else:
                parts[-1] += piece
        if len(parts) == 1:
            continue
        found = of_parts(parts, later, known, asks=asks)
        meanings = tuple(meaning for some in found for meaning in some)
        cost = (sum(not clear(some) for some in found), -kinds(meanings) if all(map(clear, found)) else 0, len(parts))
        if cost[0] < len(found) and cost < fewest:
            best, fewest = meanings, cost
    cut = best is not whole
    if cut and isinstance(whole[0], Reply):
        best = tuple(whole[0] if isinstance(meaning, Reply) else meaning for meaning in best)  # with its reason
    denied = NOT.search(sentence) and any(map(_dangerous, best))
    supposed = SUPPOSED.search(sentence) and not OFFER.match(sentence) and not isinstance(whole[0], Reply)
    return safe(best, sentence) if fewest[0] or (cut and (denied or supposed)) else best


def without_reasons(sentence: str, known: Known) -> str:
    """The sentence without parts that only say why; nothing is left out where nothing else is said."""
    pieces = cuts(sentence)
    told = "".join(piece for piece in pieces if not mere(after_joint(piece), known))
    return after_joint(told) or sentence


def mere(said: str, known: Known) -> bool:
    """Whether it gives a reason and means nothing by itself."""
    return reason(said, known) and not clear(of_clause(said, known, asks=False))


def of_parts(parts: list[str], later: list[bool], known: Known, *, asks: bool) -> list[Found]:
    """Each part; () for one of which `it` in the next one is said. `later`: parts behind a `then`."""
    found = [of_clause(part, known, asks=asks and i == len(parts) - 1, asked=asks) for i, part in enumerate(parts)]
    for i, part in enumerate(parts):
        if named_only(parts, i, found[i]) or (later[i] and at_once(found[i])):
            found[i] = (Unclear(text=part),)
        elif i and not clear(found[i]) and (name := judged(parts[i - 1], known)):
            again = of_clause(pointed(part, name), known, asks=False, asked=asks)
            found[i - 1 : i + 1] = [(), again] if clear(again) else found[i - 1 : i + 1]
    return found


def kinds(found: Found) -> int:
    """How many different kinds of wishes; the same kind twice is rather one wish cut in two."""
    return len({(meaning.kind, getattr(meaning, "about", "")) for meaning in found})


def named_only(parts: list[str], place: int, found: Found) -> bool:
    """Whether a part only names values behind a denial, to which they may belong: `never rank 8, rank 16`."""
    denied = any(NOT.search(part) for part in parts[:place])
    return denied and any(meaning.kind == "use" for meaning in found) and DOING.search(parts[place]) is None


def at_once(found: Found) -> bool:
    """Whether it stops the run now, which `… and then stop` does not mean."""
    return any(isinstance(meaning, Pause) for meaning in found)


def safe(found: Found, sentence: str) -> Found:
    """Of a sentence that is understood in part nothing dangerous and no end is taken: the rest could deny it."""
    careful = [m for m in found if not (m.kind in ("pause", "finish", "reply", "revoke", "extend") or _dangerous(m))]
    return tuple(careful) if len(careful) == len(found) else (Unclear(text=sentence),)


def _dangerous(meaning: Meaning) -> bool:
    return meaning.kind in ("delete", "publish", "extend") and dangerous(meaning)


def clear(found: Found) -> bool:
    """Whether everything was understood."""
    return not any(isinstance(meaning, Unclear | Focus) for meaning in found)


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
            return unclear if (asks or asked) and any(map(_dangerous, found)) else found
    return idea(clause)


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
