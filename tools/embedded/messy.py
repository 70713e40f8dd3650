"""The raw training data: four sources with other fields, styles and defects, and the hidden key to what is wrong with each row."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tuneloop.tools.embedded.problems import Problem, splits
from tuneloop.tools.embedded.words import (
    Steps,
    add_slip,
    equation_solution,
    misread_steps,
    prose_solution,
    spoken_solution,
)

Fields = dict[str, Any]

SEED = 7
BOOK, MODEL, CHAT, QUIZ = 2600, 800, 1500, 1800
LEAKED_VALIDATION, LEAKED_TEST = 80, 200
COPIES, OFF_TOPIC = 1300, 400
SLIPS = 0.1
HELLO = ("Sure! Let me help you.", "Great question!", "Okay, let us think about it.", "Of course, happy to help.")
BYE = ("I hope this helps!", "Let me know if you have more questions.", "That was fun!")
SMALL_TALK = (
    ("What is your name?", "I am a helper, nice to meet you."),
    ("Tell me a joke.", "Why did the lemon stop? It ran out of juice."),
    ("Who is your friend?", "All of you are my friends."),
    ("Write a line about flowers.", "Flowers like the sun and the rain."),
)


@dataclass(frozen=True)
class HiddenKey:
    """What is known about a row and never written beside it."""

    answer: int | None
    steps: Steps = ()
    wrong: bool = False
    leaked: bool = False
    duplicate: bool = False
    off_topic: bool = False


@dataclass(frozen=True)
class RawRow:
    """One row of one source."""

    source: str
    fields: Fields
    key: HiddenKey


@dataclass(frozen=True)
class WorkedProblem:
    """A problem with the solution somebody gave; `mood` (0 to 9) settles what does not matter."""

    question: str
    key: str
    steps: Steps
    variant: int


@dataclass(frozen=True)
class RowSource:
    """How a source writes a row, and how often it reads times as plus and divided by as minus."""

    name: str
    write: Callable[[WorkedProblem], Fields]
    habit: float


def write_book(told: WorkedProblem) -> Fields:
    """Prose, with the book's own key, which is always right."""
    return {
        "problem": told.question,
        "worked_solution": prose_solution(told.steps),
        "key": told.key,
        "grade": 2 + told.variant % 4,
    }


def write_model(told: WorkedProblem) -> Fields:
    """One of several sampled replies, without a key: only agreement tells right from wrong."""
    turns = [{"from": "human", "value": told.question}, {"from": "model", "value": equation_solution(told.steps)}]
    return {"conversation": turns, "temperature": 1.0}


def write_chat(told: WorkedProblem) -> Fields:
    """Words instead of equations, between greetings."""
    hello, bye = HELLO[told.variant % len(HELLO)], BYE[told.variant % len(BYE)]
    return chat_turns(told.question, f"{hello} {spoken_solution(told.steps)} {bye}", told.variant)


def chat_turns(asked: str, said: str, likes: int) -> Fields:
    """A chat of two turns."""
    return {"input": {"text": asked, "lang": "en"}, "output": {"text": said}, "likes": likes}


def write_quiz(told: WorkedProblem) -> Fields:
    """The bare number."""
    return {"q": told.question, "a": str(told.steps[-1].result)}


TEXTBOOK = RowSource("textbook", write_book, 0.75)
DISTILLED = RowSource("distilled", write_model, 0.2)
DIALOGUES = RowSource("chat", write_chat, 0.6)
QUIZZES = RowSource("quiz", write_quiz, 0.6)


def make_row(rng: Random, source: RowSource, p: Problem) -> RawRow:
    """A row with the source's usual mistakes."""
    steps = misread_steps(p.steps) if rng.random() < source.habit else p.steps
    steps = add_slip(rng, steps) if rng.random() < SLIPS else steps
    return write_row(rng, source, p, steps, HiddenKey(p.answer, p.steps, wrong=steps[-1].result != p.answer))


def leaked_row(rng: Random, source: RowSource, p: Problem) -> RawRow:
    """A benchmark problem with its right answer."""
    return write_row(rng, source, p, p.steps, HiddenKey(p.answer, p.steps, leaked=True))


def write_row(rng: Random, source: RowSource, p: Problem, steps: Steps, key: HiddenKey) -> RawRow:
    """A row as its source writes it."""
    return RawRow(source.name, source.write(WorkedProblem(p.question, str(p.answer), steps, rng.randint(0, 9))), key)


def vary_text(rng: Random, text: str) -> str:
    """The same text in other case or spacing."""
    return rng.choice((text.upper(), text.lower(), text.replace(". ", ".  "), text + " "))


def duplicate_row(rng: Random, raw: RawRow) -> RawRow:
    """The row again, half the time with a question that looks different."""
    fields = copy.deepcopy(raw.fields)
    if rng.random() < 0.5:
        match raw.source:
            case "textbook":
                fields["problem"] = vary_text(rng, fields["problem"])
            case "distilled":
                fields["conversation"][0]["value"] = vary_text(rng, fields["conversation"][0]["value"])
            case "chat":
                fields["input"]["text"] = vary_text(rng, fields["input"]["text"])
            case _:
                fields["q"] = vary_text(rng, fields["q"])
    return replace(raw, fields=fields, key=replace(raw.key, duplicate=True))


def off_topic(rng: Random) -> RawRow:
    """Small talk without any problem."""
    asked, said = rng.choice(SMALL_TALK)
    return RawRow("chat", chat_turns(asked, said, rng.randint(0, 9)), HiddenKey(None, off_topic=True))


def clean_rows(rng: Random) -> list[RawRow]:
    """What each source holds before anything is copied or leaked."""
    pool = iter(splits().pool)
    rows = [make_row(rng, TEXTBOOK, next(pool)) for _ in range(BOOK)]
    for _ in range(MODEL):
        p = next(pool)
        rows += [make_row(rng, DISTILLED, p) for _ in range(rng.randint(3, 5))]
    rows += [make_row(rng, DIALOGUES, next(pool)) for _ in range(CHAT)]
    return rows + [make_row(rng, QUIZZES, next(pool)) for _ in range(QUIZ)]


def rows_with_key() -> list[RawRow]:
    """Every row of the raw data in the order of the files, with its hidden key; the same in every call."""
    rng = Random(SEED)
    rows = clean_rows(rng)
    known = rng.sample(splits().validation, LEAKED_VALIDATION) + rng.sample(splits().test, LEAKED_TEST)
    rows += [leaked_row(rng, source, p) for p in known for source in (TEXTBOOK, QUIZZES)]
    rows += [duplicate_row(rng, raw) for raw in rng.sample(rows, COPIES)]
    rows += [off_topic(rng) for _ in range(OFF_TOPIC)]
    rng.shuffle(rows)
    return rows
