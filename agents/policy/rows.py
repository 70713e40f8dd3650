"""Rows of raw data as one shape, and the form in which they leave; data scripts carry these functions as they are."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneloop.core.records import pick, records, text_of
from tuneloop.core.text import final_answer, label_in, letter_in, normalise, plain_number, same_answer, with_answer

LABELLED = re.compile(r"^\s*(?:question|problem|task|input|query|q)\s*[:：]\s*", re.IGNORECASE)
CLOSING = re.compile(r"(?im)^\W*(?:####.*|(?:final )?answer\s*[:：].*|\\boxed\{.*\}\W*|<answer>.*</answer>)\s*$")
CHOSEN = re.compile(r"\s*\(?[A-J]\s*[.):]\s*\S[^\n]*$")
CALCULATOR = re.compile(r"<<[^<>]*>>")


@dataclass(frozen=True)
class Row:
    """One record: the question's fields, solution, final answer, reference answer if any; `sure`: something confirms it."""

    source: str
    fields: dict[str, str]
    solution: str
    answer: str | None
    key: str | None = None
    sure: bool = False

    @property
    def question(self) -> str:
        """All fields as one text."""
        return "\n".join(self.fields.values())

    @cached_property
    def name(self) -> str:
        """The question without case, punctuation and spacing: equal for near duplicates."""
        return normalise(self.question)


def read_source(root: Path, source: dict[str, Any], task: dict[str, Any], most: int | None) -> list[Row]:
    """Rows of one source, at most `most`; records without a question are left out."""
    folder = root / source["dataset"]
    path = folder if folder.is_file() else folder / source["file"]
    skip = frozenset(map(int, source["skip"]))
    some = (record for number, record in enumerate(records(path), 1) if number not in skip)
    wanted = (r for r in some if belongs(r, source["where"]) and flagged(r, source["flag"]))
    rows = (make_row(record, source, task) for record in itertools.islice(wanted, most))
    return [row for row in rows if row is not None]


def belongs(record: dict[str, Any], where: str) -> bool:
    """Whether a record is one of `field=value` or `has=field`; "" takes all."""
    name, _, value = where.partition("=")
    if name == "has":
        return record.get(value) not in (None, "", [], {})
    return not where or str(record.get(name)) == value


def flagged(record: dict[str, Any], flag: str) -> bool:
    """Whether the source marks the record as right; "" takes all."""
    path, _, yes = flag.rpartition("=")
    return not flag or text_of(pick(record, path)).casefold() == yes


def make_row(record: dict[str, Any], source: dict[str, Any], task: dict[str, Any]) -> Row | None:
    """The record in our shape; None without a question."""
    fields = {n: question_text(record, paths, n, source["frame"], task) for n, paths in source["fields"].items()}
    if not all(text or task["prefixes"].get(name) for name, text in fields.items()) or not any(fields.values()):
        return None
    options = option_texts(record, source["options"])
    solution = CALCULATOR.sub("", text_of(pick(record, source["solution"])))
    solution = source["codes"].get(solution, solution)
    solution = (
        as_letter(solution, options, source["base"]) if task["shape"] == "letter" and not source["key"] else solution
    )
    if task["shape"] == "letter" and CHOSEN.match(solution) and len(solution) < 80:
        solution = solution.strip(" (")[0]
    key = text_of(pick(record, source["key"])) if source["key"] else ""
    key = as_letter(key, options, source["base"]) if task["shape"] == "letter" else key
    if options and task["options"]:
        last = list(fields)[-1]
        fields[last] = with_options(fields[last], options, **task["options"])
    return Row(source["name"], fields, solution, answer_of(solution, task), answer_of(key, task) if key else None)


def question_text(
    record: dict[str, Any], paths: Sequence[str], name: str, frame: Sequence[str], task: dict[str, Any]
) -> str:
    """The question alone: without the source's and the benchmark's own wording around it and without `Question:`."""
    text = "\n".join(part for part in (text_of(pick(record, path)) for path in paths) if part)
    text = text.removeprefix(frame[0].strip()).removesuffix(frame[1].strip()).strip()
    prefix, suffix = task["prefixes"].get(name, ""), task["suffixes"].get(name, "")
    for constant in task["constants"] if prefix not in task["constants"] else ():
        text = text.removesuffix(constant).removeprefix(constant).strip()
    text = LABELLED.sub("", text[len(shared(prefix, text)) :]).strip()
    end = shared(suffix[::-1], text[::-1], least=max(1, min(3, len(suffix.strip()))))  # a short one as a whole
    return text[: len(text) - len(end)].strip() if end else text


def shared(outer: str, inner: str, least: int = 1) -> str:
    """What `outer` ends with and `inner` begins with, whatever the case: the part of a frame that is there already."""
    low, text = outer.casefold().strip(), inner.casefold()
    sizes = range(min(len(low), len(text)), least - 1, -1)
    size = next((n for n in sizes if text.startswith(low[-n:]) and (n == len(low) or not low[-n - 1].isalnum())), 0)
    return inner[:size]


def option_texts(record: dict[str, Any], paths: Sequence[str]) -> list[str]:
    """Options of a record in order, from one list or from a field each."""
    values = [pick(record, path) for path in paths]
    many = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    return [text for text in map(text_of, many) if text]


def as_letter(answer: str, options: Sequence[str], base: int | None) -> str:
    """An option's number (counted from `base`) or its text as its letter; anything else stays."""
    if base is not None and answer.isdigit() and 0 <= int(answer) - base < len(options):
        return chr(ord("A") + int(answer) - base)
    places = [i for i, option in enumerate(options) if same_answer(option, answer)]
    return chr(ord("A") + places[0]) if len(places) == 1 and (len(answer) > 1 or not letter_in(answer)) else answer


def with_options(question: str, options: Sequence[str], mark: str, separator: str, lead: str) -> str:
    """The question with its options as the benchmark shows them, unless they are there already."""
    if all(option in question for option in options) and any(c in question for c in ("A.", "A)", "(A", "A:")):
        return question
    letters = (chr(ord("A") + i) for i in range(len(options)))
    return (
        question + lead + separator.join(mark.format(c) + option for c, option in zip(letters, options, strict=False))
    )


def answer_of(text: str, task: dict[str, Any]) -> str | None:
    """The final answer of a text if it has the benchmark's shape and, for numbers, its range."""
    if task["shape"] == "label":
        return label_in(text, task["labels"])
    found = final_answer(text, task["shape"])
    if found is None or task["shape"] not in ("integer", "number"):
        return found
    value = plain_number(found)
    return value if value is not None and task["low"] <= float(value) <= task["high"] else None


def alpaca(row: Row, task: dict[str, Any]) -> dict[str, str]:
    """The row as the benchmark asks it, answered as its scorer reads it; without a form for that as the source has it."""
    texts = {n: task["prefixes"].get(n, "") + text + task["suffixes"].get(n, "") for n, text in row.fields.items()}
    names = "|".join(re.escape(name) for name in texts)
    instruction = re.sub(rf"\{{({names})\}}", lambda match: texts[match[1]], task["prompt"])
    if not task["final"]:
        return {"instruction": instruction, "input": "", "output": row.solution or row.answer or ""}
    steps = CLOSING.sub("", row.solution).strip() if task["steps"] else ""
    bare = steps if not same_answer(steps, row.answer) else ""
    final = with_answer(task["final"], row.answer or "")
    return {"instruction": instruction, "input": "", "output": f"{bare}\n{final}" if bare else final}


def question_mark(record: dict[str, str]) -> str:
    """The hash by which the data gate names a question."""
    return hashlib.sha256(record["instruction"].encode()).hexdigest()[:16]
