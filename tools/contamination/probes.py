"""What is looked for: each item as the letters of its sentences; of a choice its question too; a long answer."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal

from tuneloop.tools.contamination.letters import letters, merged, readings

SENTENCE = re.compile(r"(?<=[.?!:;)])\s+|(?<=[。？！；：।؟])|\n+")
OPTION = re.compile("[A-J]")  # a field with the text of an option
OPTIONS = re.compile(r"\n\s*[(\[]?A[\]).:]\s(?=.*\n\s*[(\[]?B[\]).:]\s)", re.S)  # where they begin in a text
# Items of a benchmark, and the share of them, that say one sentence without a number: a subject, an instruction.
MANY, PART = 5, 0.02
LABEL = 2  # letters of what may be the label of an option
SIZE = 8  # letters of a shingle
SAFE = 24  # bytes of letters, from which on a text is looked for inside of others
LONG_ANSWER = 120  # bytes of letters; a shorter answer is known only with its question
WORD = re.compile(r"\w+")
MOST_WORDS = 2000  # of a text whose common piece is shown; what is longer is compared as far as here
LONGEST_PIECE = 300
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

    @cached_property
    def text(self) -> str:
        """The letters, merged."""
        return merged(self.plain)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where each sentence begins and ends."""
        return tuple(pairwise((0, *self.ends)))

    @cached_property
    def longest_first(self) -> tuple[int, ...]:
        """Places of `spans` by length."""
        return tuple(sorted(range(len(self.spans)), key=lambda i: self.spans[i][0] - self.spans[i][1]))

    @property
    def long(self) -> bool:
        """Whether it is looked for inside other texts."""
        return len(self.plain.encode()) >= SAFE and len(self.plain) >= SIZE


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


def sentences(text: str) -> list[str]:
    """The letters of its sentences."""
    return [piece for part in SENTENCE.split(text) if (piece := letters(part))]


def shared_sentences(items: Sequence[KnownItem]) -> frozenset[str]:
    """What many items of a benchmark say, without numbers."""
    held = Counter(
        (item.benchmark, merged(piece))
        for item in items
        for piece in {piece for text in readings(_text(item.fields.values())) for piece in sentences(text)}
        if len(piece) > LABEL and not any(map(str.isdigit, piece))
    )
    sizes = Counter(item.benchmark for item in items)
    return frozenset(piece for (name, piece), count in held.items() if count >= max(MANY, PART * sizes[name]))


def make_probes(items: Sequence[KnownItem], shared: Collection[str]) -> Iterator[Probe]:
    """All that is looked for, what is too short to stand inside other texts too; shared sentences only where nothing else is."""
    questions = [_question(item.fields) for item in items]
    asked = Counter(map(letters, questions))
    for place, item in enumerate(items):
        made = set(_read(place, _text(item.fields.values()), shared))
        if asked[letters(questions[place])] == 1:
            made.update(probe for probe in _read(place, questions[place], shared) if probe.long)
        made.update(p for p in _read(place, item.answer, (), whole=True) if len(p.plain.encode()) >= LONG_ANSWER)
        yield from made


def _text(fields: Iterable[str]) -> str:
    return "\n".join(part for text in fields for part in row_texts(text))


def _read(place: int, text: str, shared: Collection[str], *, whole: bool = False) -> Iterator[Probe]:
    """The probes of one text in its readings."""
    for reading in readings(text):
        every = sentences(reading)
        pieces = [piece for piece in every if merged(piece) not in shared] or every
        if pieces:
            yield Probe(place, "".join(pieces), tuple(accumulate(map(len, pieces))), whole)


def _question(fields: Mapping[str, str]) -> str:
    """What stands before the options; "" where there are none."""
    text = _text(part for name, part in fields.items() if not OPTION.fullmatch(name))
    found = OPTIONS.search(text)
    return text[: found.start()] if found else text if any(map(OPTION.fullmatch, fields)) else ""


def matched_piece(row: Any, item: str) -> str:
    """The longest run of words of `item` in the row, as the row writes it; "" without one."""
    wanted = [match[0].casefold() for match in WORD.finditer(item)][:MOST_WORDS]
    best = ""
    for text in row_texts(row):
        found = list(WORD.finditer(text))[:MOST_WORDS]
        words = [match[0].casefold() for match in found]
        run = difflib.SequenceMatcher(None, words, wanted, autojunk=False).find_longest_match()
        if run.size:
            piece = text[found[run.a].start() : found[run.a + run.size - 1].end()]
            best = max(best, piece, key=len)
    return best[:LONGEST_PIECE]
