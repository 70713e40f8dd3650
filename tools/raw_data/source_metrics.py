"""Measurements of one source under a reading: labels, steps, duplicates, agreement, chatter."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tuneloop.core.profile import FieldRoles
from tuneloop.core.records import pick, text_of
from tuneloop.core.text import (
    equations,
    final_answer,
    letter_in,
    normalise,
    same_answer,
    sentences,
    signs,
    tokens,
    unfinished,
    unlikely,
)
from tuneloop.tools.raw_data.fields import Record
from tuneloop.tools.raw_data.similarity import BenchmarkTarget


@dataclass(frozen=True)
class ProfiledRow:
    """One record as read."""

    question: str
    solution: str
    key: str
    answer: str | None
    said: str | None

    @cached_property
    def name(self) -> str:
        """Equal for near duplicates."""
        return normalise(self.question)


def read_rows(records: Sequence[Record], reading: FieldRoles, target: BenchmarkTarget) -> list[ProfiledRow]:
    """Records that have a question, as rows."""
    found = []
    for record in records:
        if reading.flag and not is_flagged(record, reading.flag):
            continue
        paths = tuple(reading.fields.values()) or reading.question
        question = "\n".join(filter(None, (text_of(pick(record, p)) for p in paths)))
        question = question.removeprefix(reading.prefix.strip()).removesuffix(reading.suffix.strip()).strip()
        if question:
            found.append(row_of(record, reading, target, question))
    return found


def is_flagged(record: Record, flag: str) -> bool:
    """Whether the source marks the record as right."""
    path, _, yes = flag.rpartition("=")
    return text_of(pick(record, path)).casefold() == yes


def row_of(record: Record, reading: FieldRoles, target: BenchmarkTarget, question: str) -> ProfiledRow:
    """A row; option numbers and texts become letters."""
    solution = text_of(pick(record, reading.solution)) if reading.solution else ""
    solution = reading.codes.get(solution, solution)
    key = text_of(pick(record, reading.key)) if reading.key else ""
    options = option_texts(record, reading)
    key = as_letter(key, options, reading.index_base) if target.facts.answer_shape == "letter" and key else key
    bare = not reading.key and options
    text = (
        as_letter(solution, options, reading.index_base) if bare and target.facts.answer_shape == "letter" else solution
    )
    said = target.answer(text)
    return ProfiledRow(question, solution, key, (target.answer(key) or None) if key else said, said)


def option_texts(record: Record, reading: FieldRoles) -> list[str]:
    """The options of a record, in order."""
    if len(reading.options) == 1:
        value = pick(record, reading.options[0])
        return [text_of(v) for v in value] if isinstance(value, list) else []
    return [text_of(pick(record, path)) for path in reading.options]


def as_letter(answer: str, options: Sequence[str], base: int | None) -> str:
    """An option's number or text as its letter; anything else stays."""
    if base is not None and answer.isdigit() and 0 <= int(answer) - base < len(options):
        return chr(ord("A") + int(answer) - base)
    places = [i for i, option in enumerate(options) if same_answer(option, answer)]
    return chr(ord("A") + places[0]) if len(places) == 1 and (len(answer) > 1 or not letter_in(answer)) else answer


def share_of(count: float, rows: Sequence[object]) -> float:
    """0 to 1, three digits."""
    return round(count / len(rows), 3) if rows else 0.0


def has_solution(row: ProfiledRow) -> bool:
    """Whether there is more than the answer."""
    bare = row.said or row.key or ""
    return len(tokens(row.solution)) > len(tokens(bare)) + 4


def equation_shares(rows: Sequence[ProfiledRow]) -> tuple[float, float, float, float]:
    """Rows with one equation, with two, (of those with one) with a false one, (of those with two) with another result."""
    found = [equations(row.solution) for row in rows]
    some = [f for f in found if f]
    chains = [row for f, row in zip(found, rows, strict=True) if len(f) > 1 and row.said]
    return (
        share_of(len(some), rows),
        share_of(sum(len(f) > 1 for f in found), rows),
        share_of(sum(not all(e[2] for e in f) for f in some), some),
        share_of(sum(unfinished(row.solution, row.said) is not None for row in chains), chains),
    )


def spoken_equations(rows: Sequence[ProfiledRow]) -> float:
    """Rows that have two equations only when words are read as signs."""
    spoken = ((row.solution, signs(row.solution)) for row in rows)
    return share_of(
        sum(said != text and len(equations(said)) > 1 >= len(equations(text)) for text, said in spoken), rows
    )


def chatter_share(rows: Sequence[ProfiledRow]) -> float:
    """Rows that begin or end with a sentence many others begin or end with, no number in it."""
    ends = [(parts[0], parts[-1]) for row in rows if len(parts := sentences(row.solution)) > 1]
    counts = Counter(s for pair in ends for s in set(pair) if not any(c.isdigit() for c in s))
    many = {s for s, c in counts.items() if c >= max(5, 0.02 * len(rows))}
    return share_of(sum(bool(many & set(pair)) for pair in ends), rows)


def repetition_shares(rows: Sequence[ProfiledRow]) -> tuple[float, float, float, float]:
    """Exact duplicates, near duplicates, rows whose question has several replies, and of those the disagreeing ones."""
    exact = len(rows) - len({(r.question, r.solution, r.key) for r in rows})
    near = len({r.question for r in rows}) - len({r.name for r in rows})
    by_name: dict[str, list[ProfiledRow]] = defaultdict(list)
    for row in rows:
        if row.said is not None:
            by_name[row.name].append(row)
    several = [group for group in by_name.values() if len(group) > 1]
    repeated = sum(map(len, several))
    differ = sum(len(g) for g in several if not all(same_answer(g[0].said, r.said) for r in g))
    return (
        share_of(exact, rows),
        share_of(near, rows),
        share_of(repeated, rows),
        round(differ / repeated, 3) if repeated else 0.0,
    )


def off_topic_share(rows: Sequence[ProfiledRow], target: BenchmarkTarget) -> float:
    """Rows without an answer of the shape, or with fewer telling words than nearly every prompt has."""
    words, least = set(target.facts.words), max(1, target.facts.least_words)
    if not words:
        return share_of(sum(r.answer is None for r in rows), rows)
    return share_of(sum(r.answer is None or len(words & set(tokens(r.question))) < least for r in rows), rows)


def key_agreement(rows: Sequence[ProfiledRow], shape: str) -> float | None:
    """Rows whose solution ends with the key; None where no row has both."""
    both = [r for r in rows if r.key and has_solution(r) and r.said is not None]
    right = sum(same_answer(final_answer(r.key, shape) or r.key, r.said) for r in both)
    return share_of(right, both) if len(both) >= 5 else None


def unlikely_labels(rows: Sequence[ProfiledRow], target: BenchmarkTarget) -> float | None:
    """Rows whose label the words of other rows speak against; of at most 2,000."""
    labelled = [(r.question, r.answer) for r in rows[:: max(1, len(rows) // 2000)] if r.answer is not None]
    if target.facts.answer_shape != "label" or len(labelled) < 50:
        return None
    return share_of(sum(unlikely(labelled, 5, 0.1)), labelled)


def top_answers(rows: Sequence[ProfiledRow]) -> dict[str, float]:
    """The most frequent answers, where any is frequent."""
    counts = Counter(r.answer for r in rows if r.answer)
    return {a[:40]: share_of(c, rows) for a, c in counts.most_common(12) if c >= 0.02 * len(rows)}
