"""What the guard knows of an item: the item whole; of a choice its question with the right option; a long answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tuneloop.tools.contamination.rows import texts_of
from tuneloop.tools.likeness.plain import BREAK, broken

LABEL = re.compile(r"(?:(?<=\s)|^)[(\[]?([A-J])[\]).:]\s+")
LETTER = re.compile(r"\(?([A-J])\)?\.?")
OPTION = re.compile("[A-J]")  # a field with the text of an option
MANY = 5  # items
LONG_ANSWER = 30  # tokens; a shorter one is known only with its question
LONGEST = 6000  # tokens of an item that are compared
KnownSplit = Literal["validation", "unseen", "test"]  # unseen: of the validation half that agents do not see


@dataclass(frozen=True)
class Known:
    """One item of a benchmark's split; `fields` are those that a prompt shows."""

    benchmark: str
    split: KnownSplit
    id: str
    fields: Mapping[str, str]
    answer: str = ""


@dataclass(frozen=True)
class Hit:
    """What a row overlaps with; of an item of the test or of the unseen half nothing is told but that there is one."""

    benchmark: str
    split: KnownSplit
    id: str | None

    @property
    def sealed(self) -> bool:
        """Whether the row may be shown to nobody."""
        return self.split != "validation"


@dataclass(frozen=True)
class Probe:
    """Tokens to look for in a row, part by part: each part must be there; `strict`: nearly all of each.

    `item`: the place of its item.
    """

    item: int
    parts: tuple[tuple[str, ...], ...]
    strict: bool = False

    @property
    def tokens(self) -> list[str]:
        """All parts with a border between them."""
        joined: list[str] = []
        for part in self.parts:
            joined += [*part, BREAK]
        return joined


def hit(known: Known) -> Hit:
    """What may be told of an overlap."""
    found = Hit(known.benchmark, known.split, known.id)
    return replace(found, id=None) if found.sealed else found


def probes(items: Sequence[Known]) -> Iterator[Probe]:
    """What to look for: the whole items first, each at its item's place."""
    items = own_fields(items)
    yield from (Probe(number, _parts(item.fields.values())) for number, item in enumerate(items))
    for number, item in enumerate(items):
        if parts := _opened(list(item.fields.values())):
            yield Probe(number, parts)
        if (asked := with_right_option(item)) is not None:
            yield Probe(number, _parts(asked), strict=True)
        answer = tuple(broken(item.answer)) if len(item.answer) > LONG_ANSWER else ()
        if len(answer) >= LONG_ANSWER:
            yield Probe(number, (answer[:LONGEST],))


def own_fields(items: Sequence[Known]) -> list[Known]:
    """The items without fields that say the same in many items of a benchmark: a subject, a task's instruction."""
    values = Counter((item.benchmark, name, text) for item in items for name, text in item.fields.items())
    found = []
    for item in items:
        own = {
            name: text
            for name, text in item.fields.items()
            if values[item.benchmark, name, text] < MANY or OPTION.fullmatch(name)
        }
        told = any(not OPTION.fullmatch(name) for name in own)
        found.append(replace(item, fields=own) if told else item)
    return found


def _parts(texts: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(part for text in texts if (part := tuple(broken(text)[:LONGEST])))


def _opened(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """As `_parts`, but of a text that is JSON, say a table, what is in it, as rows may have it."""
    found = [list(texts_of(text)) for text in texts]
    if all(inner == [text] for inner, text in zip(found, texts, strict=True)):
        return ()
    return _parts("\n\n".join(inner) for inner in found)


def with_right_option(item: Known) -> tuple[str, str] | None:
    """Question and text of the right option; None where the item is no choice among lettered texts."""
    letter = LETTER.fullmatch(item.answer.strip())
    if letter is None:
        return None
    fields = dict(item.fields)
    if (chosen := fields.get(letter[1])) is not None:
        rest = [text for name, text in fields.items() if not OPTION.fullmatch(name)]
        return "\n".join(rest), chosen
    text = "\n".join(fields.values())
    labels = _run(text)
    place = ord(letter[1]) - ord("A")
    if place >= len(labels):
        return None
    end = labels[place + 1].start() if place + 1 < len(labels) else len(text)
    chosen = text[labels[place].end() : end].strip()
    return text[: labels[0].start()], chosen.partition("\n")[0] if place + 1 == len(labels) else chosen


def _run(text: str) -> list[re.Match[str]]:
    """The last labels that run from A on."""
    found: list[re.Match[str]] = []
    for match in LABEL.finditer(text):
        if match[1] == "A":
            found = [match]
        elif found and ord(match[1]) == ord(found[-1][1]) + 1:
            found.append(match)
    return found if len(found) > 1 else []
