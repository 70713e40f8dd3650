r"""The answers of BIG-Bench Hard: an option, a word, a number, sorted words or brackets; the gold answer says which."""

from __future__ import annotations

import re
from typing import Any

from ..answer_matching import LAST_NUMBER, blanks, box, plain_number, unsigned, without_thoughts

READS = (
    "the rest of the line after the last 'answer is', or a box behind it, e.g. `So the answer is (B).`; "
    "compared in the form of the gold answer (option, word, number, words, brackets)"
)

STATED = re.compile(r"\banswer(?:\s+is|\s*:)\s*:?", re.IGNORECASE)
BRACKETS = "()[]{}<>"
WORDS = ("yes", "no", "true", "false", "valid", "invalid")
LONGEST_BARE = 200  # characters of a reply that may be the bare answer


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 when what is stated is the gold answer in the form of its kind."""
    found = stated(reply)
    read = KINDS[kind_of(gold)](found) if found else None
    return {"parsed": read, "value": float(read is not None and read == KINDS[kind_of(gold)](gold))}


def kind_of(gold: str) -> str:
    """The kind of answer that a gold answer is."""
    if re.fullmatch(r"\([A-Z]\)", gold):
        return "option"
    if gold.lower() in WORDS:
        return "word"
    if plain_number(gold) is not None:
        return "number"
    return "brackets" if set(gold) <= set(BRACKETS + " ") else "words"


def stated(reply: str) -> str | None:
    """What stands on the line after the last "answer is", or in a box that follows; a short reply may be the bare answer."""
    text = without_thoughts(reply)
    if text is None:
        return None
    *_, last = [None, *STATED.finditer(text)]
    rest = text[last.end() :] if last else text
    if (inside := box(rest)) is not None:
        return inside
    if last:
        return rest.strip().partition("\n")[0].strip() or None
    return text.strip() if len(text.strip()) <= LONGEST_BARE else None


def option(text: str) -> str | None:
    """A letter in brackets, or the one that the text begins with; None where it is denied, or is one of several."""
    if re.match(r"(?i:\W*(?:not|neither)\b)", text) or re.search(
        r"\([A-Z]\)\W*(?:(?:or|and)\b\W*|[/,])\s*\([A-Z]\)", text
    ):
        return None
    if alone := re.fullmatch(r"\W*([a-z])\W*", text):
        return alone[1].upper()
    found = re.search(r"\(([A-Z])\)", text) or re.match(r"(?i:\W*(?:option\s+)?)([A-Z])\s*(?:[).:,*]|$)", text)
    return found[1] if found else None


def word(text: str) -> str | None:
    """The first of the words that such questions ask for."""
    found = re.match(rf"\W*(?:\\text\{{)?({'|'.join(WORDS)})\b", text, re.IGNORECASE)
    return found[1].lower() if found else None


def value(text: str) -> str | None:
    """The first number stated; of an equation its right side."""
    found = LAST_NUMBER.search(unsigned(text.rpartition("=")[2]))
    return plain_number(found[0]) if found else None


def brackets(text: str) -> str | None:
    """The brackets, without what is between them; a text with letters is no sequence of brackets."""
    bare = re.sub(r"[\s`'\"$.,*]|\\(?=[{}])", "", text)
    return bare if bare and set(bare) <= set(BRACKETS) else None


def words(text: str) -> str | None:
    """Words in their order, in small letters."""
    bare = blanks(re.sub(r"[*`\"\[\]]|\\text|[{}]", " ", text).replace(",", " ")).strip(" .'").lower()
    return bare or None


KINDS = {"option": option, "word": word, "number": value, "brackets": brackets, "words": words}
