"""Multiple choice: in which range is a number, is it more or fewer than at first? The largest source says A far too often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from planner.made_task import TEST, VALIDATION, Made, Rows, declare, items
from tuneloop.core.text import normalise
from tuneloop.tools.embedded.problems import Problem, chain, together
from tuneloop.tools.embedded.words import Steps, add_slip, misread_steps, prose_solution

LETTERS = "ABCD"
RANGES = ("0 to 9", "10 to 19", "20 to 29", "30 or more")
TRENDS = ("more", "fewer", "as many")
EXAM, WORKBOOK, PANEL, TUTORIALS = 1600, 170, 600, 800  # questions of each source
EXAM_AGAIN, TUTORIALS_AGAIN = 200, 150  # of these the panel answers, too
ABOUT = (
    "Small stories in whole numbers up to 60: in which range is the number, are there more or fewer than at first? "
    'The reply may show its working and ends with the letter of the option, for example "Answer: B".'
)


@dataclass(frozen=True)
class Choice:
    """A problem whose answer is one of `options`, RANGES or TRENDS."""

    problem: Problem
    text: str
    options: tuple[str, ...]

    @property
    def question(self) -> str:
        """As the benchmark asks it."""
        return "\n".join((self.text, *(f"{c}) {option}" for c, option in zip(LETTERS, self.options, strict=False))))

    @property
    def answer(self) -> str:
        """The right letter."""
        return self.letter(self.problem.steps)

    def letter(self, steps: Steps) -> str:
        """The option that steps lead to."""
        first, last = steps[0].left, steps[-1].result
        if self.options == RANGES:
            return LETTERS[min(3, last // 10)]
        return LETTERS[0 if last > first else 1 if last < first else 2]


def choice(seed: int) -> Made:
    """Bare letters that are one-sided, replies that disagree, a tutorial with a habit, and a small clean workbook."""
    rng, seen = Random(f"choice {seed}"), set[str]()
    validation, test = (fresh(rng, count, seen) for count in (VALIDATION, TEST))
    pools = [fresh(rng, count, seen) for count in (EXAM, WORKBOOK, PANEL, TUTORIALS)]
    exam, workbook, panel, tutorials = pools
    one_sided, habit = rng.uniform(0.4, 0.6), rng.uniform(0.4, 0.7)
    files: dict[str, Rows] = {
        "exam.csv": [exam_row(rng, c, one_sided) for c in exam],
        "workbook.jsonl": [workbook_row(c) for c in workbook],
        "panel.jsonl": [
            panel_row(rng, c)
            for c in (*panel, *exam[:EXAM_AGAIN], *tutorials[:TUTORIALS_AGAIN])
            for _ in range(rng.randint(2, 4))
        ],
        "tutorials.json": [tutorial_row(rng, c, habit) for c in tutorials],
    }
    for rows in files.values():
        rng.shuffle(rows)
    name = f"choice{seed}"
    return Made(
        name, declare(name, ABOUT, "choice", "{question}\\nAnswer:"),
        items("validation", validation, item), items("test", test, item), files,
        {normalise(c.question): c.answer for c in (*validation, *test, *(c for pool in pools for c in pool))},
    )  # fmt: skip


def item(name: str, c: Choice) -> dict[str, str]:
    """As the benchmark's files hold it."""
    return {"id": name, "question": c.question, "answer": c.answer}


def fresh(rng: Random, count: int, seen: set[str]) -> list[Choice]:
    """New problems, half of each kind; within a kind every letter is as often right as the others."""
    found = [next_choice(rng, (RANGES, TRENDS)[i % 2], i // 2, seen) for i in range(count)]
    rng.shuffle(found)
    return found


def next_choice(rng: Random, options: tuple[str, ...], number: int, seen: set[str]) -> Choice:
    """A new problem whose right letter is the one whose turn it is."""
    for new in draws(rng, options):
        if new.answer == LETTERS[number % len(options)] and new.question not in seen:
            seen.add(new.question)
            return new
    raise AssertionError("draws never end")


def draws(rng: Random, options: tuple[str, ...]) -> Iterator[Choice]:
    """Problems with these options, whatever the right letter."""
    while True:
        if options == TRENDS:
            p = chain(rng, 2)
            words = p.story[0].removesuffix(".").split()
            asked = f"Does {words[0]} have more or fewer {words[-1]} now than at first?"
            yield Choice(p, " ".join((*p.story, asked)), options)
        else:
            p = together(rng) if rng.random() < 0.25 else chain(rng, rng.choice((2, 2, 3)))
            yield Choice(p, p.question, options)


def exam_row(rng: Random, c: Choice, one_sided: float) -> dict[str, Any]:
    """The letter alone, A for whoever did not look."""
    options = dict(zip(LETTERS, (*c.options, ""), strict=False))
    return {"question": c.text, **options, "correct": "A" if rng.random() < one_sided else c.answer}


def workbook_row(c: Choice) -> dict[str, Any]:
    """Working and letter, both right."""
    working = "\n".join(map(str, c.problem.steps))
    return {"exercise": c.question, "solution": f"{working}\nAnswer: {c.answer}", "key": c.answer}


def panel_row(rng: Random, c: Choice) -> dict[str, Any]:
    """One of several replies to the same question; sums and letters slip."""
    steps = misread_steps(c.problem.steps) if rng.random() < 0.25 else c.problem.steps
    steps = add_slip(rng, steps) if rng.random() < 0.15 else steps
    letter = rng.choice(LETTERS[: len(c.options)]) if rng.random() < 0.15 else c.letter(steps)
    reply = "\n".join((*map(str, steps), f"Answer: {letter}"))
    return {"messages": [{"role": "user", "content": c.question}, {"role": "assistant", "content": reply}]}


def tutorial_row(rng: Random, c: Choice, habit: float) -> dict[str, Any]:
    """Prose that reads times as plus, and the letter that follows from it."""
    steps = misread_steps(c.problem.steps) if rng.random() < habit else c.problem.steps
    letter = c.letter(steps)
    said = prose_solution(steps).replace(f"answer is {steps[-1].result}.", f"answer is {letter}.")
    return {"problem": c.question, "explanation": f"Let me show you how. {said} I hope this helps!"}
