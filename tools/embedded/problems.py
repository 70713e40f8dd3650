"""Word problems of two to four steps, and which of them are for validation, for the sealed test and for the training pool."""

from __future__ import annotations

import itertools
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from random import Random

from tuneloop.tools.embedded.words import Step, happening_sentence, people, random_change, step

NOTES = (10, 20, 30, 40, 50)
VALIDATION, TEST, POOL = 200, 500, 7000
MORE = 800  # validation problems, drawn after all others, so that those stay what they are
# The draws of `more_validation` whose story the base model has read: to find them, `corpus.py` takes seconds.
IN_CORPUS = frozenset((
    51, 56, 60, 65, 95, 217, 234, 249, 251, 267, 313, 366, 384, 392, 406, 441, 444, 467, 554, 557, 570, 652, 667, 697, 724,
    731, 732, 735, 739, 783, 803, 819, 844,
))  # fmt: skip
SUFFIX = "\nEnd with \\boxed{answer}."


@dataclass(frozen=True)
class Problem:
    """What is told, what is asked, and the steps to the answer."""

    story: tuple[str, ...]
    asked: str
    steps: tuple[Step, ...]

    @property
    def question(self) -> str:
        """The whole text in one line."""
        return " ".join((*self.story, self.asked))

    @property
    def answer(self) -> int:
        """The result of the last step."""
        return self.steps[-1].result


@dataclass(frozen=True)
class Splits:
    """Problems that share no question; `pool` is what raw data is made from."""

    validation: tuple[Problem, ...]
    test: tuple[Problem, ...]
    pool: tuple[Problem, ...]


def chain(rng: Random, changes: int) -> Problem:
    """One person's things change several times."""
    who, a = people(rng), rng.randint(3, 40)
    story, steps = ["{name} has {a} {things}.".format(a=a, **who)], []
    for _ in range(changes):
        done = random_change(rng, a)
        story.append(happening_sentence(rng, done, who))
        steps.append(done)
        a = done.result
    return Problem(tuple(story), "How many {things} does {name} have now?".format(**who), tuple(steps))


def together(rng: Random) -> Problem:
    """Two people; the second has more or fewer than the first."""
    who, a, b = people(rng), rng.randint(10, 25), rng.randint(2, 9)
    more = rng.random() < 0.5
    story = (
        "{name} has {a} {things}.".format(a=a, **who),
        "{other} has {b} {kind} than {name}.".format(b=b, kind="more" if more else "fewer", **who),
    )
    second = step(a, "+" if more else "-", b)
    return Problem(story, "How many do they have together?", (second, step(a, "+", second.result)))


def shopping(rng: Random) -> Problem:
    """Price times number, taken from what was paid."""
    who, count, price = people(rng), rng.randint(2, 6), rng.randint(2, 6)
    cost = step(count, "*", price)
    paid = rng.choice([note for note in NOTES if note > cost.result])
    story = (
        "{name} buys {count} {things} for {price} dollars each.".format(count=count, price=price, **who),
        "{He} pays with {paid} dollars.".format(paid=paid, **who),
    )
    return Problem(story, "How many dollars does {name} get back?".format(**who), (cost, step(paid, "-", cost.result)))


def problem(rng: Random) -> Problem:
    """A problem as the benchmark asks it."""
    kind = rng.random()
    if kind < 0.2:
        return together(rng)
    return shopping(rng) if kind < 0.4 else chain(rng, rng.randint(2, 4))


def draw(rng: Random, count: int, seen: set[str], without: Container[int] = ()) -> tuple[Problem, ...]:
    """`count` new problems, none with a question in `seen`, which grows; draws numbered `without` (from 0) are left out."""
    found: list[Problem] = []
    for number in itertools.count():
        if len(found) == count:
            break
        new = problem(rng)
        if number not in without and new.question not in seen:
            seen.add(new.question)
            found.append(new)
    return tuple(found)


@cache
def splits() -> Splits:
    """The problems of the embedded world; the same in every call and on every machine."""
    seen: set[str] = set()
    return Splits(draw(Random(11), VALIDATION, seen), draw(Random(12), TEST, seen), draw(Random(13), POOL, seen))


@cache
def more_validation() -> tuple[Problem, ...]:
    """Further validation problems: the base model's corpus tells none of their stories, as it tells none of the test's."""
    seen = {p.question for part in (splits().validation, splits().test, splits().pool) for p in part}
    return draw(Random(14), MORE, seen, IN_CORPUS)


def stories() -> frozenset[tuple[str, ...]]:
    """What the problems of the first validation items and of the test tell; a corpus must tell something else."""
    return frozenset(p.story for p in (*splits().validation, *splits().test))
