"""Tasks that no planner was tuned on: benchmarks and raw data made anew from any seed, for the embedded tiny model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from planner.chains_task import chains
from planner.choice_task import choice
from planner.made_task import POOL, TEST, VALIDATION, Made, Rows, declare, family, items
from tuneloop.core.text import normalise
from tuneloop.tools.embedded import messy
from tuneloop.tools.embedded.problems import SUFFIX, Problem, chain, draw, shopping, together
from tuneloop.tools.embedded.words import add_slip, equation_solution, misread_steps, prose_solution


def stories(seed: int) -> Made:
    """The embedded task's family: new problems, other rows, and sources that are wrong more or less often."""
    rng, seen = Random(f"stories {seed}"), set[str]()
    validation, test, pool = (draw(rng, count, seen) for count in (VALIDATION, TEST, POOL))
    sources = [
        messy.RowSource(s.name, s.write, min(0.9, max(0.05, s.habit + rng.uniform(-0.2, 0.2))))
        for s in (messy.TEXTBOOK, messy.DISTILLED, messy.DIALOGUES, messy.QUIZZES)
    ]
    rows = honest(rng, sources, iter(pool))
    known = rng.sample(validation, messy.LEAKED_VALIDATION)
    rows += [messy.leaked_row(rng, source, p) for p in known for source in (sources[0], sources[3])]
    rows += [messy.duplicate_row(rng, raw) for raw in rng.sample(rows, messy.COPIES)]
    rows += [messy.off_topic(rng) for _ in range(messy.OFF_TOPIC)]
    rng.shuffle(rows)
    named = {"textbook": "textbook.csv", "distilled": "distilled.jsonl", "chat": "chat.json", "quiz": "quiz.tsv"}
    files: dict[str, Rows] = {file: [] for file in named.values()}
    for raw in rows:
        files[named[raw.source]].append(raw.fields)
    about = (
        "Word problems in English with two to four steps of + - * / and whole numbers up to 60. "
        "The reply ends with the final number in \\boxed{}, for example \\boxed{41}; the last box counts."
    )
    declared = declare(f"stories{seed}", about, "boxed", "{prompt}")

    def item(name: str, p: Problem) -> dict[str, str]:
        return {"id": name, "prompt": p.question + SUFFIX, "answer": str(p.answer)}

    return Made(
        f"stories{seed}", declared, items("validation", validation, item), items("test", test, item), files,
        right((*validation, *pool), lambda p: p.question),
    )  # fmt: skip


def honest(rng: Random, sources: Sequence[messy.RowSource], pool: Iterator[Problem]) -> list[messy.RawRow]:
    """What each source holds before anything is copied or leaked."""
    book, model, chat, quiz = sources
    rows = [messy.make_row(rng, book, next(pool)) for _ in range(messy.BOOK)]
    for _ in range(messy.MODEL):
        p = next(pool)
        rows += [messy.make_row(rng, model, p) for _ in range(rng.randint(3, 5))]
    rows += [messy.make_row(rng, chat, next(pool)) for _ in range(messy.CHAT)]
    return rows + [messy.make_row(rng, quiz, next(pool)) for _ in range(messy.QUIZ)]


def till(seed: int) -> Made:
    """A second task: purchases and comparisons, another form of the answer, other files, other things wrong with them.

    The largest source is wrong by habit and its key with it, so only other sources speak against it.
    """
    rng, seen = Random(f"till {seed}"), set[str]()
    validation, test, pool = (fresh(rng, count, seen) for count in (VALIDATION, TEST, POOL))
    habit, rest = rng.uniform(0.6, 0.9), iter(pool)
    book, sums, talks, bare = ([next(rest) for _ in range(n)] for n in (1800, 500, 1000, 900))
    sums_ = [(p, rng.randint(2, 4)) for p in (*sums, *book[:250])]
    files = {
        "receipts.csv": [receipt(rng, p, habit) for p in book],
        "tutors.jsonl": [tutor(rng, p) for p, times in sums_ for _ in range(times)],
        "mailbag.json": [letter(rng, p) for p in (*talks, *book[250:400])],
        "homework.tsv": [homework(rng, p) for p in (*bare, *sums[:150])],
    }
    for rows in files.values():
        rng.shuffle(rows)
    about = (
        "Purchases and comparisons in whole numbers: what is paid back, how many there are together or in the end. "
        'The reply may show its working and ends with the number, for example "Answer: 41".'
    )
    declared = declare(f"till{seed}", about, "number", "{question}\\nAnswer:")

    def item(name: str, p: Problem) -> dict[str, str]:
        return {"id": name, "question": p.question, "answer": str(p.answer)}

    return Made(
        f"till{seed}", declared, items("validation", validation, item), items("test", test, item), files,
        right((*validation, *pool), lambda p: p.question),
    )  # fmt: skip


def fresh(rng: Random, count: int, seen: set[str]) -> list[Problem]:
    """New problems of the second task."""
    found: list[Problem] = []
    while len(found) < count:
        kind = rng.random()
        new = shopping(rng) if kind < 0.4 else together(rng) if kind < 0.65 else chain(rng, rng.randint(2, 3))
        if new.question not in seen:
            seen.add(new.question)
            found.append(new)
    return found


def receipt(rng: Random, p: Problem, habit: float) -> dict[str, Any]:
    """Working and total, both wrong by habit."""
    steps = misread_steps(p.steps) if rng.random() < habit else p.steps
    return {"story": " ".join(p.story), "what": p.asked, "working": prose_solution(steps), "total": steps[-1].result}


def tutor(rng: Random, p: Problem) -> dict[str, Any]:
    """One of several replies to the same question, seldom wrong."""
    steps = misread_steps(p.steps) if rng.random() < 0.15 else p.steps
    steps = add_slip(rng, steps) if rng.random() < 0.1 else steps
    return {
        "task": {"story": " ".join(p.story), "question": p.asked},
        "reply": equation_solution(steps),
        "tutor": rng.randint(1, 9),
    }


def letter(rng: Random, p: Problem) -> dict[str, Any]:
    """Words between greetings, wrong now and then."""
    steps = misread_steps(p.steps) if rng.random() < 0.35 else p.steps
    return messy.write_chat(messy.WorkedProblem(p.question, str(p.answer), steps, rng.randint(0, 9)))


def homework(rng: Random, p: Problem) -> dict[str, Any]:
    """The bare number."""
    steps = add_slip(rng, p.steps) if rng.random() < 0.2 else p.steps
    return {"text": p.question, "number": steps[-1].result}


def right(problems: Sequence[Problem], asked: Callable[[Problem], str]) -> dict[str, str]:
    """Question → right answer."""
    return {normalise(asked(p)): str(p.answer) for p in problems}


FAMILIES: dict[str, Callable[[int], Made]] = {"stories": stories, "till": till, "choice": choice, "chains": chains}


def make(name: str) -> Made:
    """By name, `stories3`: the family and its seed. Raises KeyError for a family that does not exist."""
    return FAMILIES[family(name)](int(name.removeprefix(family(name))))
