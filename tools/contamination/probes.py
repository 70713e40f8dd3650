"""What is looked for: each item as pieces of letters; of a choice its question with the right option; a long answer."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Any, Literal

from tuneloop.tools.contamination.letters import letters, merged, readings

SENTENCE = re.compile(r"(?<=[.?!:;)])\s+|(?<=[。？！；：।؟])|\n+")
LABEL = re.compile(r"(?:(?<=\s)|^)[(\[]?([A-J])[\]).:]\s+")
LETTER = re.compile(r"\(?([A-J])\)?\.?")
OPTION = re.compile("[A-J]")  # a field with the text of an option
MANY = 5  # items with a field that says the same: a subject, an instruction
FRAMED = 8  # items from which on what all begin and end with is their common instruction
SAFE = 24  # bytes of letters, from which on a text is looked for inside of others
LONG_ANSWER = 120  # bytes of letters; a shorter answer is known only with its question
Frame = tuple[str, str]  # what all items of a benchmark begin and end with
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
    """The letters of `item` (its place) to look for, and where its sentences end; `whole`: none of them may be missing."""

    item: int
    plain: str
    ends: tuple[int, ...]
    whole: bool = False


def hit_of(known: KnownItem) -> Hit:
    """What may be told of an overlap."""
    found = Hit(known.benchmark, known.split, known.id)
    return replace(found, id=None) if found.sealed else found


def row_texts(row: Any) -> Iterator[str]:
    """Every text, number and name of a field in a JSON value, in order; JSON written inside a text is opened, all of it."""
    stack = [row]
    while stack:
        value = stack.pop()
        if isinstance(value, str) and (inner := _parse_json_text(value)) is not None:
            stack.append(inner)
        elif isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += [part for pair in reversed(value.items()) for part in reversed(pair)]
        elif isinstance(value, list | tuple):
            stack += reversed(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)


def _parse_json_text(text: str) -> Any:
    bare = text.strip()
    if len(bare) < 2 or bare[0] + bare[-1] not in ("{}", "[]"):
        return None
    try:
        return json.loads(bare, object_pairs_hook=list)  # of a key that stands twice both values
    except (ValueError, RecursionError):
        return None


def make_probes(items: Sequence[KnownItem]) -> Iterator[Probe]:
    """All that is looked for, what is too short to stand inside other texts too."""
    items = distinctive_fields(items)
    frames = common_frames(items)
    for place, item in enumerate(items):
        made = {strip_frame(probe, frames[item.benchmark]) for probe in _read(place, item.fields.values())}
        if (asked := with_right_option(item)) is not None:
            made.update(probe for probe in _read(place, asked, whole=True) if len(probe.plain.encode()) >= SAFE)
        made.update(p for p in _read(place, [item.answer], whole=True) if len(p.plain.encode()) >= LONG_ANSWER)
        yield from made


def _read(place: int, texts: Iterable[str], *, whole: bool = False) -> set[Probe]:
    """The probes of one text in its readings."""
    text = "\n".join(part for one in texts for part in row_texts(one))
    found = set()
    for reading in readings(text):
        pieces = [piece for part in SENTENCE.split(reading) if (piece := letters(part))]
        found.add(Probe(place, "".join(pieces), tuple(accumulate(map(len, pieces))), whole))
    return {probe for probe in found if probe.plain}


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


def common_frames(items: Sequence[KnownItem]) -> dict[str, frozenset[Frame]]:
    """The letters that all items of a benchmark begin and end with, as they are and without markup."""
    texts = defaultdict[str, list[tuple[str, str]]](list)
    for item in items:
        forms = [merged(letters(form)) for form in readings("\n".join(item.fields.values()))]
        texts[item.benchmark].append((forms[0], forms[-1]))
    return {
        name: frozenset(map(_frame, zip(*found, strict=True))) if len(found) >= FRAMED else frozenset({("", "")})
        for name, found in texts.items()
    }


def _frame(texts: Sequence[str]) -> Frame:
    return _beginning(texts), _beginning([text[::-1] for text in texts])[::-1]


def _beginning(texts: Sequence[str]) -> str:
    low, high = min(texts), max(texts)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False))
    return "".join(one for one, _ in same)


def strip_frame(probe: Probe, frames: Collection[Frame]) -> Probe:
    """Without the common beginning and end, where something is left between them."""
    text = merged(probe.plain)
    spans = []
    for first, last in frames:
        start = len(first) if text.startswith(first) else 0
        spans.append((start, len(text) - len(last) if text.endswith(last) else len(text)))
    start, stop = min(((a, b) for a, b in spans if a < b), key=lambda span: span[1] - span[0], default=(0, len(text)))
    ends = sorted({min(end, stop) - start for end in probe.ends if end > start})
    return replace(probe, plain=probe.plain[start:stop], ends=tuple(ends))


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
