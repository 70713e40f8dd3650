"""Words to meanings without a chat model; what is not understood is said to be unclear, never guessed."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import log

from tuneloop.agents.steering.asking import OFFER
from tuneloop.agents.steering.beside import conditional, judged, pointed
from tuneloop.agents.steering.bounds import NOT
from tuneloop.agents.steering.control import GO_ON, grave
from tuneloop.agents.steering.filling import Found, clear
from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.plain import LONGEST, after_joint, bare, cuts, plain, sentences
from tuneloop.agents.steering.recipes import DOING
from tuneloop.agents.steering.replies import FIRM, HEDGE
from tuneloop.agents.steering.weighing import JUDGES, WHY, Reading, told, weigh
from tuneloop.core.directive import Extend, Finish, Focus, Pause, Reply, Revoke, Unclear, Use

LATER = re.compile(r"[ ,]*(?:and )?(?:then|after that|afterwards)\b")
TAIL = re.compile(  # of the wish before it
    r"(?:for )?(?:every|each|any|all) (?:single )?(?:time|experiment|run|turn|one)s?|always|ever|for now|from (?:now|here) on|"
    r"next time|this time|until i say (?:otherwise|so)|until further notice|no matter what|only|at all|either|instead|"
    r"for good|please"
)
RETRACTS = re.compile(  # alone, or before a comma: `no full fine-tuning` and `do not use the forum` are wishes
    r"(?:hm+ ,? ?|or |rather ,? ?)*(?:no|not|wait|actually|actually (?:no|do not|never)|do not)(?= ,|,|$)|"
    r"(?:or |no ,? ?)?(?:i mean|i meant|make (?:it|that)|actually|sorry|better|rather)\b(?=.*\d)|"
    r"(?:oh |actually )?(?:no wait|wait no|on second thoughts?|never ?mind|scratch that|forget (?:it|that)|(?:just )?kidding)\b"
)
HALTS = re.compile(  # what may be meant of an end, a budget or a deletion before it: `stop. do not stop now`
    r"(?:(?:oh|actually|please|just|never|ok|hm+|or|rather|sorry|i mean|i meant) ?,? ?)*(?:no|wait|do not|go on|continue|let it)\b"
    r"(?! (?:problem|rush|hurry|worr\w+|delete|remove|erase|wipe|lose|publish|touch|change|forget))"
)
MILD = frozenset(["use", "avoid", "bound", "keep", "focus", "sources", "question", "unclear", "approve"])
OR_NOT = re.compile(r"\bor not$")
# At the end of an order, whatever mark follows.
TAG = re.compile(r"[ ,]+(?:(?:would|will|could|can) (?:you|we)|ok|okay|please|alright)$")
Read = list[tuple[str, Found]]
QUOTED = re.compile(r"[\x00-\x08\x0b-\x1f]")
SAME = {"pause": "finish"}
LIKELY, APART = 0.7, 0.2
CUT = 0.05  # what a cut costs, as a loss of likeness


def understand(text: str, known: Known) -> Found:
    """Meanings of one message, in order; at least one. The same message is always read alike."""
    lines = QUOTED.sub(" ", text[:LONGEST]).splitlines()
    said = [line for line in lines if not line.lstrip().startswith(">")]  # which quotes
    read = [(sentence, of_sentence(sentence, known)) for line in said for sentence in sentences(plain(line))]
    if len(read) > 1:
        read = [(sentence, () if casual(sentence, means) else means) for sentence, means in read]
    if undone(read) or unsure(read):
        return (Unclear(text=" ".join(text.split())[:500]),)
    if any(means and clear(means) for _, means in read):
        read = [(sentence, means) for sentence, means in read if clear(means) or not told(sentence, known)]
    found = dict.fromkeys(meaning for _, means in read for meaning in means)
    if any(isinstance(meaning, Revoke) and meaning.ids for meaning in found):
        found.pop(Revoke(), None)  # `…, take that back` is said of the same
    if all(isinstance(meaning, Unclear) for meaning in found):
        return (Unclear(text=" ".join(text.split())[:500]),)
    return tuple(found)


def undone(read: Read) -> bool:
    """Whether a later sentence takes back what an earlier one wished: `stop. no, go on`."""
    wished = False  # what is no mere wish for the recipe
    for i, (sentence, means) in enumerate(read):
        if i and any(found for _, found in read) and (RETRACTS.match(sentence) or (wished and HALTS.match(sentence))):
            return True
        wished = wished or any(meaning.kind not in MILD for meaning in means)
    return False


def casual(sentence: str, found: Found) -> bool:
    """Whether its yes is only how people begin: `great! What is next?`."""
    return any(isinstance(meaning, Reply) and meaning.yes for meaning in found) and not FIRM.search(sentence)


def unsure(read: Read) -> bool:
    """Whether a yes stands beside what is no clear wish, or a no: then it is none."""
    replies = [meaning for _, means in read for meaning in means if isinstance(meaning, Reply)]
    if not any(reply.yes for reply in replies) or len(read) == 1:
        return False
    beside = [means for _, means in read if not any(isinstance(meaning, Reply) for meaning in means)]
    whole = " ".join(sentence for sentence, _ in read)
    halted = any(isinstance(meaning, Pause | Finish | Revoke | Extend) for means in beside for meaning in means)
    return (
        halted
        or len(replies) > 1
        or any(not means or not clear(means) for means in beside)
        or HEDGE.search(whole) is not None
    )


def of_sentence(sentence: str, known: Known) -> Found:
    """The likeliest way to cut it at its joints."""
    asks = sentence.endswith("?")
    sentence = sentence.rstrip("? ")
    if OR_NOT.search(sentence):
        return (Unclear(text=sentence),)
    asks, pieces = asks and TAG.search(sentence) is None, cuts(sentence)
    offers = any(OFFER.match(after_joint(piece)) for piece in pieces)

    @cache
    def read(part: str, last: bool) -> Reading:
        beside = offers and OFFER.match(part) is None  # `could you use rank 16, and cap the dropout at 0.1?`
        return weigh(part, known, asks=asks and last and not beside, asked=asks)

    whole = read(sentence, True)
    at = next((i for i, piece in enumerate(pieces) if conditional(after_joint(piece))), None)
    if at is not None and not clear(whole.means):
        return under_condition(pieces, at, known)
    reasons = [WHY.match(after_joint(piece)) is not None for piece in pieces[1:]]
    best = [] if any(reasons) and not replies(whole) else [whole]
    for joined in product((True, False), repeat=len(pieces) - 1):
        if any(reason and not cut for reason, cut in zip(reasons, joined, strict=True)):
            continue  # `always 42, otherwise I can not compare`: what it denies is no wish
        parts, later = [pieces[0]], [False]
        for piece, cut in zip(pieces[1:], joined, strict=True):
            if cut:
                parts.append(after_joint(piece))
                later.append(LATER.match(piece) is not None)
            else:
                parts[-1] += piece
        if any(TAIL.fullmatch(part.strip(" ,")) for part in parts[1:]):
            continue
        found = [read(part, i == len(parts) - 1) for i, part in enumerate(parts)]
        found = mended(parts, later, found, known)
        if len(parts) > 1 and replies(whole) and (said := with_reply(whole, found)):
            return joint([Reading(said, 1.0)], sentence)
        if not best or cost(found) < cost(best):
            best = found
    return joint(best or [whole], sentence)


def replies(reading: Reading) -> bool:
    """Whether it is a yes or no."""
    return bool(reading.means) and isinstance(reading.means[0], Reply)


def with_reply(whole: Reading, parts: list[Reading]) -> Found:
    """`no - use rank 8 instead`: the answer with its reason, and what is wished beside it; () where nothing is."""
    found = tuple(meaning for one in parts for meaning in one.means)
    wished = [meaning for meaning in found if not isinstance(meaning, Reply)]
    if not wished or len(wished) == len(found) or not clear(found) or min(one.sure for one in parts) < LIKELY:
        return ()
    return (*whole.means, *wished)


def cost(readings: list[Reading]) -> float:
    """Of a way of reading: how unlikely its parts are, and how many; several surely different wishes are no accident."""
    kinds = {SAME.get(m.kind, m.kind + getattr(m, "about", "")) for one in readings for m in one.means}
    gain = APART * (len(kinds) - 1) if "unclear" not in kinds and min(one.sure for one in readings) >= LIKELY else 0.0
    return -sum(log(one.sure) for one in readings) + CUT * len(readings) - gain


def joint(readings: list[Reading], sentence: str) -> Found:
    """What the parts mean together; nothing that cannot be undone where one of them is unclear, or denies."""
    found = tuple(dict.fromkeys(meaning for one in readings for meaning in one.means))
    yes, no = ([m for m in found if isinstance(m, Reply) and m.yes is said] for said in (True, False))
    if yes and (no or any(isinstance(m, Pause | Finish | Revoke | Extend) for m in found)):
        return (Unclear(text=sentence),)
    if len(readings) > 1 and any(isinstance(meaning, Reply) and meaning.yes for meaning in found):
        aside = any(not one.means for one in readings)
        if aside or HEDGE.search(sentence):
            return (Unclear(text=sentence),)
    if any(isinstance(meaning, Finish) for meaning in found):
        found = tuple(meaning for meaning in found if not isinstance(meaning, Pause))  # `as soon as it is done, stop`
    if any(isinstance(meaning, Pause) for meaning in found):  # `a demo in five minutes, pause`
        found = tuple(meaning for meaning in found if not isinstance(meaning, Extend) or meaning.seconds >= 0)
    if any(isinstance(m, Finish) for m in found) and any(isinstance(m, Extend) for m in found):
        return (Unclear(text=sentence),)
    found = together(found)
    if len(readings) > 1 and (
        any(isinstance(m, Unclear) for m in found) or (NOT.search(sentence) and any(map(grave, found)))
    ):
        return safe(found, sentence)
    return found


def together(found: Found) -> Found:
    """More of one thing and more of another are one wish."""
    more = [meaning for meaning in found if isinstance(meaning, Extend)]
    if len(more) < 2:
        return found
    fields = ("seconds", "experiments", "tokens", "money", "gpu_hours")
    if any(sum(bool(getattr(one, name)) for one in more) > 1 for name in fields):
        return found
    whole = Extend(**{name: sum(getattr(one, name) for one in more) for name in fields})
    return tuple(dict.fromkeys(whole if isinstance(meaning, Extend) else meaning for meaning in found))


def under_condition(pieces: list[str], at: int, known: Known) -> Found:
    """`try rank 32, and if it helps, 64`: what is under no condition is meant."""
    first, rest = "".join(pieces[:at]), "".join(pieces[at:])
    if at and re.match(r"[ ,]*(?:and|also|then|;)\b", rest):
        return (*of_sentence(first, known), Unclear(text=after_joint(rest)))
    return (Unclear(text="".join(pieces)),)


def mended(parts: list[str], later: list[bool], found: list[Reading], known: Known) -> list[Reading]:
    """The readings of parts that hang on the part before them. `later`: parts behind a `then`."""
    found = list(found)
    for i, part in enumerate(parts):
        if len(parts) > 1 and GO_ON.match(bare(part)) and not any(isinstance(m, Revoke) for m in found[i].means):
            ended = any(isinstance(m, Pause | Finish) for one in found for m in one.means)
            found[i] = Reading((Unclear(text=part),) if ended else (), found[i].sure)  # it does
        elif named_only(parts, i, found[i].means) or (later[i] and at_once(found[i].means)):
            found[i] = Reading((Unclear(text=part),), found[i].sure)
        elif i and set_before(found[i].means, found[:i]) and DOING.search(part) is None:
            found[i] = Reading((), found[i].sure)  # `switch to adafactor, adamw is too big`
        elif i and not clear(found[i].means) and told(part, known) and (spoken(found[:i]) or not focused(found[i])):
            found[i] = Reading((), max(found[i].sure, LIKELY))
        elif JUDGES.search(part) and sets([*found[:i], *found[i + 1 :]]) and DOING.search(part) is None:
            found[i] = Reading((), LIKELY)  # `try rank 32, I think 8 is too small`
        elif i and not clear(found[i].means) and (name := judged(parts[i - 1], known)):
            again = weigh(pointed(part, name), known, asks=False)
            found[i - 1 : i + 1] = [Reading((), 1.0), again] if clear(again.means) else found[i - 1 : i + 1]
    return found


def spoken(readings: list[Reading]) -> bool:
    """Whether something was understood."""
    return any(one.means and clear(one.means) for one in readings)


def sets(readings: list[Reading]) -> bool:
    """Whether some parameter got a value."""
    return any(isinstance(meaning, Use) for one in readings for meaning in one.means)


def focused(reading: Reading) -> bool:
    """Whether it is an idea in words."""
    return any(isinstance(meaning, Focus) for meaning in reading.means)


def named_only(parts: list[str], place: int, found: Found) -> bool:
    """Whether a part only names values behind a denial, to which they may belong: `never rank 8, rank 16`."""
    denied = any(NOT.search(part) for part in parts[:place])
    return denied and any(meaning.kind == "use" for meaning in found) and DOING.search(parts[place]) is None


def set_before(found: Found, before: list[Reading]) -> bool:
    """Whether it is of parameters that have got a value already."""
    names = {meaning.parameter for one in before for meaning in one.means if isinstance(meaning, Use)}
    return bool(found) and all(isinstance(meaning, Use) and meaning.parameter in names for meaning in found)


def at_once(found: Found) -> bool:
    """Whether it stops the run now, which `… and then stop` does not mean."""
    return any(isinstance(meaning, Pause) for meaning in found)


def safe(found: Found, sentence: str) -> Found:
    """Of a sentence that is understood in part nothing dangerous and no end is taken: the rest could deny it."""
    careful = [m for m in found if not (m.kind in ("pause", "finish", "reply", "revoke", "extend") or grave(m))]
    return tuple(careful) if len(careful) == len(found) else (Unclear(text=sentence),)
