"""What the guard knows of an item: the item whole; of a choice its question with the right option; a long answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from tuneloop.tools.contamination.normalize import BREAK, tokens_with_breaks

# A training row as its texts, whatever its fields are called and however deep they lie.

DEEPEST = 40


def row_texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Every text and number in a JSON value, in order; JSON written inside a text is opened."""
    if isinstance(value, str):
        inner = _parse_json_text(value) if depth < DEEPEST else None
        if inner is None:
            yield value
        else:
            yield from row_texts(inner, depth + 1)
    elif isinstance(value, dict | list | tuple):
        if depth < DEEPEST:
            for part in value.values() if isinstance(value, dict) else value:
                yield from row_texts(part, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _parse_json_text(text: str) -> Any:
    bare = text.strip()
    if len(bare) < 2 or bare[0] + bare[-1] not in ("{}", "[]"):
        return None
    try:
        found = orjson.loads(bare)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict | list) else None


LABEL = re.compile(r"(?:(?<=\s)|^)[(\[]?([A-J])[\]).:]\s+")
LETTER = re.compile(r"\(?([A-J])\)?\.?")
OPTION = re.compile("[A-J]")  # a field with the text of an option
MANY = 5  # items
LONG_ANSWER = 30  # tokens; a shorter one is known only with its question
LONGEST = 6000  # tokens of an item that are compared
KnownSplit = Literal["validation", "unseen", "test"]  # unseen: of the validation half that agents do not see


@dataclass(frozen=True)
class KnownItem:
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


def hit_of(known: KnownItem) -> Hit:
    """What may be told of an overlap."""
    found = Hit(known.benchmark, known.split, known.id)
    return replace(found, id=None) if found.sealed else found


def make_probes(items: Sequence[KnownItem]) -> Iterator[Probe]:
    """What to look for: the whole items first, each at its item's place."""
    items = distinctive_fields(items)
    yield from (Probe(number, _parts(item.fields.values())) for number, item in enumerate(items))
    for number, item in enumerate(items):
        if parts := _opened(list(item.fields.values())):
            yield Probe(number, parts)
        if (asked := with_right_option(item)) is not None:
            yield Probe(number, _parts(asked), strict=True)
        answer = tuple(tokens_with_breaks(item.answer)) if len(item.answer) > LONG_ANSWER else ()
        if len(answer) >= LONG_ANSWER:
            yield Probe(number, (answer[:LONGEST],))


def distinctive_fields(items: Sequence[KnownItem]) -> list[KnownItem]:
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
    return tuple(part for text in texts if (part := tuple(tokens_with_breaks(text)[:LONGEST])))


def _opened(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """As `_parts`, but of a text that is JSON, say a table, what is in it, as rows may have it."""
    found = [list(row_texts(text)) for text in texts]
    if all(inner == [text] for inner, text in zip(found, texts, strict=True)):
        return ()
    return _parts("\n\n".join(inner) for inner in found)


def with_right_option(item: KnownItem) -> tuple[str, str] | None:
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
