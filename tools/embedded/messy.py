"""The raw training data: four sources with other fields, styles and defects, and the hidden key to what is wrong with each row."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tuneloop.tools.embedded.problems import Problem, splits
from tuneloop.tools.embedded.solutions import Steps, lines, misread, prose, slip, spoken

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
class Key:
    """What is known about a row and never written beside it."""

    answer: int | None
    steps: Steps = ()
    wrong: bool = False
    leaked: bool = False
    duplicate: bool = False
    off_topic: bool = False


@dataclass(frozen=True)
class Raw:
    """One row of one source."""

    source: str
    fields: Fields
    key: Key


@dataclass(frozen=True)
class Told:
    """A problem with the solution somebody gave; `mood` (0 to 9) settles what does not matter."""

    question: str
    key: str
    steps: Steps
    mood: int


@dataclass(frozen=True)
class Source:
    """How a source writes a row, and how often it reads times as plus and divided by as minus."""

    name: str
    write: Callable[[Told], Fields]
    habit: float


def write_book(told: Told) -> Fields:
    """Prose, with the book's own key, which is always right."""
    return {"problem": told.question, "worked_solution": prose(told.steps), "key": told.key, "grade": 2 + told.mood % 4}


def write_model(told: Told) -> Fields:
    """One of several sampled replies, without a key: only agreement tells right from wrong."""
    turns = [{"from": "human", "value": told.question}, {"from": "model", "value": lines(told.steps)}]
    return {"conversation": turns, "temperature": 1.0}


def write_chat(told: Told) -> Fields:
    """Words instead of equations, between greetings."""
    hello, bye = HELLO[told.mood % len(HELLO)], BYE[told.mood % len(BYE)]
    return thread(told.question, f"{hello} {spoken(told.steps)} {bye}", told.mood)


def thread(asked: str, said: str, likes: int) -> Fields:
    """A chat of two turns."""
    return {"input": {"text": asked, "lang": "en"}, "output": {"text": said}, "likes": likes}


def write_quiz(told: Told) -> Fields:
    """The bare number."""
    return {"q": told.question, "a": str(told.steps[-1].result)}


TEXTBOOK = Source("textbook", write_book, 0.75)
DISTILLED = Source("distilled", write_model, 0.2)
DIALOGUES = Source("chat", write_chat, 0.6)
QUIZZES = Source("quiz", write_quiz, 0.6)


def row(rng: Random, source: Source, p: Problem) -> Raw:
    """A row with the source's usual mistakes."""
    steps = misread(p.steps) if rng.random() < source.habit else p.steps
    steps = slip(rng, steps) if rng.random() < SLIPS else steps
    return written(rng, source, p, steps, Key(p.answer, p.steps, wrong=steps[-1].result != p.answer))


def leaked(rng: Random, source: Source, p: Problem) -> Raw:
    """A benchmark problem with its right answer."""
    return written(rng, source, p, p.steps, Key(p.answer, p.steps, leaked=True))


def written(rng: Random, source: Source, p: Problem, steps: Steps, key: Key) -> Raw:
    """A row as its source writes it."""
    return Raw(source.name, source.write(Told(p.question, str(p.answer), steps, rng.randint(0, 9))), key)


def disguised(rng: Random, text: str) -> str:
    """The same text in other case or spacing."""
    return rng.choice((text.upper(), text.lower(), text.replace(". ", ".  "), text + " "))


def copied(rng: Random, raw: Raw) -> Raw:
    """The row again, half the time with a question that looks different."""
    fields = copy.deepcopy(raw.fields)
    if rng.random() < 0.5:
        match raw.source:
            case "textbook":
                fields["problem"] = disguised(rng, fields["problem"])
            case "distilled":
                fields["conversation"][0]["value"] = disguised(rng, fields["conversation"][0]["value"])
            case "chat":
                fields["input"]["text"] = disguised(rng, fields["input"]["text"])
            case _:
                fields["q"] = disguised(rng, fields["q"])
    return replace(raw, fields=fields, key=replace(raw.key, duplicate=True))


def off_topic(rng: Random) -> Raw:
    """Small talk without any problem."""
    asked, said = rng.choice(SMALL_TALK)
    return Raw("chat", thread(asked, said, rng.randint(0, 9)), Key(None, off_topic=True))


def honest_rows(rng: Random) -> list[Raw]:
    """What each source holds before anything is copied or leaked."""
    pool = iter(splits().pool)
    rows = [row(rng, TEXTBOOK, next(pool)) for _ in range(BOOK)]
    for _ in range(MODEL):
        p = next(pool)
        rows += [row(rng, DISTILLED, p) for _ in range(rng.randint(3, 5))]
    rows += [row(rng, DIALOGUES, next(pool)) for _ in range(CHAT)]
    return rows + [row(rng, QUIZZES, next(pool)) for _ in range(QUIZ)]


def rows_with_key() -> list[Raw]:
    """Every row of the raw data in the order of the files, with its hidden key; the same in every call."""
    rng = Random(SEED)
    rows = honest_rows(rng)
    known = rng.sample(splits().validation, LEAKED_VALIDATION) + rng.sample(splits().test, LEAKED_TEST)
    rows += [leaked(rng, source, p) for p in known for source in (TEXTBOOK, QUIZZES)]
    rows += [copied(rng, raw) for raw in rng.sample(rows, COPIES)]
    rows += [off_topic(rng) for _ in range(OFF_TOPIC)]
    rng.shuffle(rows)
    return rows
