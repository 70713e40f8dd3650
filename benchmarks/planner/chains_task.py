"""Chained changes: padded solutions that are too long for a reply, and terse ones that leave a change out by habit."""

from __future__ import annotations

from random import Random
from typing import Any

from planner.made_task import TEST, VALIDATION, Made, Rows, declare, items
from tuneloop.core.text import normalise
from tuneloop.tools.embedded.problems import Problem, chain
from tuneloop.tools.embedded.words import Step, Steps, add_slip, compute, misread_steps, spoken_solution

LONGEST = 64  # tokens of a reply: room for equations, not for padded prose
JOURNAL, NOTES, MENTORS, RESULTS = 1300, 1500, 420, 800  # questions of each source
JOURNAL_AGAIN, NOTES_AGAIN = 150, 300  # of these mentors answer, too
IDLE = (
    "We read the question once more before we go on.",
    "Numbers are good friends when we take our time.",
    "This looks hard at first, but it is not.",
    "Many people like to stop here for a moment.",
    "All of this is clear so far.",
    "It helps to say it in other words.",
)
BACK = {"+": "minus", "-": "plus"}
ABOUT = (
    "Stories in which the number of somebody's things changes two to four times; whole numbers up to 60. "
    "The reply may show its working in few words and ends with the number: the answer is 41."
)


def chains(seed: int) -> Made:
    """Padded journals, terse notes with a habit, mentors that disagree, bare results."""
    rng, seen = Random(f"chains {seed}"), set[str]()
    validation, test = (fresh(rng, count, seen) for count in (VALIDATION, TEST))
    pools = [fresh(rng, count, seen) for count in (JOURNAL, NOTES, MENTORS, RESULTS)]
    journal, notes, mentors, results = pools
    habit, slips = rng.uniform(0.55, 0.85), rng.uniform(0.05, 0.2)
    files: dict[str, Rows] = {
        "journal.jsonl": [journal_row(rng, p, slips) for p in journal],
        "notes.csv": [notes_row(rng, p, habit) for p in notes],
        "mentors.json": [
            mentor_row(rng, p)
            for p in (*mentors, *journal[:JOURNAL_AGAIN], *notes[:NOTES_AGAIN])
            for _ in range(rng.randint(2, 3))
        ],
        "results.tsv": [results_row(rng, p) for p in results],
    }
    for rows in files.values():
        rng.shuffle(rows)
    name = f"chains{seed}"
    return Made(
        name, declare(name, ABOUT, "number", "{question}\\nFinish with the words the answer is 41.", LONGEST),
        items("validation", validation, item), items("test", test, item), files,
        {normalise(p.question): str(p.answer) for p in (*validation, *test, *(p for pool in pools for p in pool))},
    )  # fmt: skip


def item(name: str, p: Problem) -> dict[str, str]:
    """As the benchmark's files hold it."""
    return {"id": name, "question": p.question, "answer": str(p.answer)}


def fresh(rng: Random, count: int, seen: set[str]) -> list[Problem]:
    """New problems of two to four changes."""
    found: list[Problem] = []
    while len(found) < count:
        new = chain(rng, rng.choice((2, 3, 3, 4, 4)))
        if new.question not in seen:
            seen.add(new.question)
            found.append(new)
    return found


def leave_out(rng: Random, steps: Steps) -> Steps:
    """The steps without one that is not the first, carried on; as they are where that does not come out even."""
    gone = rng.randrange(1, len(steps))
    done: list[Step] = list(steps[:gone])
    for old in steps[gone + 1 :]:
        a = done[-1].result
        if (old.op == "/" and a % old.right) or not 0 <= compute(a, old.op, old.right) <= 99:
            return steps
        done.append(Step(a, old.op, old.right, compute(a, old.op, old.right)))
    return tuple(done)


def journal_row(rng: Random, p: Problem, slips: float) -> dict[str, Any]:
    """Every step with idle sentences and a check in words; seldom wrong."""
    steps = add_slip(rng, p.steps) if rng.random() < slips else p.steps
    said = []
    for told, s in zip(p.story[1:], steps, strict=True):
        said += [rng.choice(IDLE), f"{told} So we write {s.left} {s.op} {s.right} = {s.result}."]
        if s.op in BACK and rng.random() < 0.4:
            said.append(f"To be sure, {s.result} {BACK[s.op]} {s.right} makes {s.left} again.")
    said += [rng.choice(IDLE), f"The answer is {steps[-1].result}."]
    return {"prompt": p.question, "completion": " ".join(said)}


def notes_row(rng: Random, p: Problem, habit: float) -> dict[str, Any]:
    """Terse; a change is forgotten by habit, and every equation holds."""
    steps = leave_out(rng, p.steps) if rng.random() < habit else p.steps
    return {"task": p.question, "working": "; ".join(map(str, steps))}


def mentor_row(rng: Random, p: Problem) -> dict[str, Any]:
    """One of several replies in words, wrong now and then in several ways."""
    steps = misread_steps(p.steps) if rng.random() < 0.2 else p.steps
    steps = add_slip(rng, steps) if rng.random() < 0.15 else steps
    return {"asked": {"story": p.question}, "reply": {"text": spoken_solution(steps)}, "mentor": rng.randint(1, 5)}


def results_row(rng: Random, p: Problem) -> dict[str, Any]:
    """The bare number, seldom wrong."""
    steps = add_slip(rng, p.steps) if rng.random() < 0.1 else p.steps
    return {"q": p.question, "a": steps[-1].result}
