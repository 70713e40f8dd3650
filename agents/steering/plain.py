"""A message in plain words: one way of writing contractions, signs and powers of ten; cut into sentences and clauses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from tuneloop.agents.steering.numbers import UNITS, WORDS
from tuneloop.agents.steering.shorthand import SHORT, SIGNS
from tuneloop.agents.steering.spelling import mended

LONGEST = 2000  # letters that are read; nobody says more in one message
MOST_CLAUSES = 6
POWER = re.compile(
    r"(?:(?P<times>\d+(?:\.\d+)?)\s*[×x*·]\s*|\b)10\s*(?:(?:\^|\*\*)\s*(?P<plain>[-+−]?\d+)|"
    r"(?P<high>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
)
HIGH = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹−", "-+0123456789-")
COURTESY = re.compile(
    r"^(?:(?:what i (?:would like|want|need)(?: to (?:see|try|do|have))?(?: (?:next|now))? is|"
    r"hi|hey|sorry|hello|ok|okay|so|well|now|and|but|also|then|actually|oh|hmm|alright|right|great|good|"
    r"thanks|thank you|"
    r"(?:wait|hold on|hang on)(?=[ ,]+(?:why|what|how|which|where|when|who|did|is|are|can|could|tell)\b)|"
    r"please|kindly|tuneloop|team|maybe|perhaps|(?:could|can|would|will) you|i (?:would like|want|"
    r"need|wish) you to|"
    r"i (?:would|'d) (?:like|prefer|love) (?:it if you|you) ?(?:could|would)?|you (?:should|must|have to|"
    r"need to|had better)|"
    r"make sure (?:that )?(?:you|to)|i am (?:curious|interested)(?: (?:in|to (?:see|know|"
    r"learn)))?(?: how| what| whether)?|"
    r"i (?:would|'d) (?:be|like to be) (?:curious|interested|glad|happy)(?: (?:in|to (?:see|know|"
    r"learn)))?(?: how| what| whether| if)?|whatever (?:you|we) (?:do|try|plan)|"
    r"whatever happens|i (?=take back|revoke|withdraw|retract|"
    r"cancel)|be sure to|go ahead and|feel free to(?! (?:go|exceed|raise|lower))|remember to|i(?: would|"
    r"'d) say|let us|"
    r"we (?:should|must|need to)|for me|if you (?:could|can|would)|when(?:ever)? you (?:can|could|have time)|"
    r"if possible)\b[ ,:-]*)+"
)
LATER = re.compile(r"[ ,]*\b(?:please|thanks|thank you|thx|for me|if you (?:can|could|please)|will you|would you)$")
POINT = re.compile(rf"\b(?:({'|'.join(UNITS)}) )?point ({'|'.join(UNITS[:10])})\b")  # `one point five`
HALF = re.compile(rf"\b({'|'.join(UNITS[1:])}|\d+) and a half(?= (?!hours?\b)\w)")  # `two and a half dollars`
SPOKEN_POWER = re.compile(  # `two e minus four`, `ten to the minus four`
    rf"\b(?:({'|'.join(UNITS)}|\d+(?:\.\d+)?) e|ten to the(?: power of)?) minus ({'|'.join(UNITS)}|\d+)\b"
)
# `8,16` may be two numbers; `0,1` and `1,5 hours` are one.
UNIT = (
    r"(?:e-|\s?(?:(?:more|extra|additional|further|other)\s)?(?:%|\$|€|[khmd]\b|hours?|hrs?|min|sec|days?|weeks?|dollars?|usd|eur|"
    r"million|thousand|epochs?|gpu|percent))"
)
DECIMAL_COMMA = re.compile(rf"(?<![\d.,])(0|(?<=\$)\d+|\d+(?=,\d+{UNIT})),(\d{{1,2}}|\d{{4,}})(?![\d,])", re.IGNORECASE)
DOTTED = re.compile(
    r"(?<![\d.,])([1-9]\d{0,2})\.(\d{3})(?=(?: more| extra| additional)? (?:tokens?|steps?)\b)", re.IGNORECASE
)
LISTED = re.compile(r"\b((?:wishes|rules|directives|experiments|numbers|runs|limits) \d+),(?=\d)", re.IGNORECASE)
JOINT = re.compile(
    r"\s*(?:(?<!\d),|,(?!\d)|;|\band also\b|\band then\b|\band\b|(?<!everything )(?<!all )(?<!anything )(?<!nothing )\bbut\b|"
    r"\bthen\b|\balso\b|\bplus\b|\bafter that\b| - |"
    r"\bso (?=(?:please|no|never|use|try|let|do|go|stop|pause|keep|stick|skip|drop|avoid|set|switch|take|give|add|make|finish|"
    r"wrap)\b)|"
    r" : (?=\w+ \w+ \w+)|(?=\b(?:because|cause|cuz|since|so that|given that|otherwise)\b))\s*"
)


def plain(text: str) -> str:
    """Lower case, one blank between words, signs as words; never longer than what is read."""
    cut = POWER.sub(_power, text[:LONGEST])
    cut = re.sub(r"(\d[\d.]*(?:e-?\d+)?)\s*(<|>)=?\s*(?=[a-zA-Z])", _flipped, cut)
    cut = LISTED.sub(r"\1 and ", DECIMAL_COMMA.sub(r"\1.\2", DOTTED.sub(r"\1\2", cut)))
    for sign, word in SIGNS.items():
        cut = cut.replace(sign, word)
    cut = unicodedata.normalize("NFKC", cut).lower()
    cut = SPOKEN_POWER.sub(lambda match: f"{_digits(match[1] or 'one')}e-{_digits(match[2])}", cut)
    cut = HALF.sub(lambda match: f"{_digits(match[1])}.5", cut)
    cut = POINT.sub(lambda match: f"{_digits(match[1] or 'zero')}.{_digits(match[2])}", cut)
    for short, full in SHORT:
        cut = re.sub(short, full, cut)
    cut = re.sub(r"(?:^|(?<=\s))\+\s?(?=[\d$])", "add ", cut)
    cut = re.sub(r"[\"`“”«»*{}<>\[\]()|\\]|(?<!\w)'|'(?!\w)", " ", cut)
    cut = mended(cut)
    return " ".join(re.sub(r"(?<=[a-z_])\s*([:=,])\s*|(?<=\d)\s*([=,])\s+|\s+([,:=])\s*", _apart, cut).split())


def _digits(said: str) -> str:
    return f"{WORDS[said]:g}" if said in WORDS else said


def _flipped(match: re.Match[str]) -> str:
    """`4 < batch size`: above 4."""
    return f"{'above' if match[2] == '<' else 'below'} {match[1]} "


def _apart(match: re.Match[str]) -> str:
    return f" {match[1] or match[2] or match[3]} "


def _power(match: re.Match[str]) -> str:
    exponent = (match["plain"] or match["high"]).translate(HIGH)
    return f"{match['times'] or '1'}e{exponent}"


def sentences(text: str) -> Iterator[str]:
    """Of plain text; a question keeps its mark."""
    for piece in re.findall(r"(?:[^.!?;\n]|[.](?=\S))+[?]?", text):
        said = piece.rstrip(" .,!;:-").lstrip(" .,!;:")
        if said := said if re.match(r"-\d", said) else said.lstrip(" -"):
            yield said


def bare(clause: str) -> str:
    """Without words of courtesy at both ends."""
    return LATER.sub("", COURTESY.sub("", clause.strip(" ,.!;:-"))).strip(" ,.!;:-")


def cuts(sentence: str) -> list[str]:
    """The sentence in pieces at its joints, which are kept with what follows them, so that pieces can be joined again."""
    places = [match.start() for match in JOINT.finditer(sentence) if match.start()][: MOST_CLAUSES - 1]
    return [sentence[a:b] for a, b in zip([0, *places], [*places, len(sentence)], strict=True)]


def after_joint(piece: str) -> str:
    """The piece without the joint before it."""
    match = JOINT.match(piece)
    return piece[match.end() :] if match else piece
