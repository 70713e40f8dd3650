"""Word problems of two to four steps, and which of them are for validation, for the sealed test and for the training pool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from tuneloop.tools.embedded.words import Step, change, happening, people, step

NOTES = (10, 20, 30, 40, 50)
VALIDATION, TEST, POOL = 200, 500, 7000
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
        done = change(rng, a)
        story.append(happening(rng, done, who))
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


def draw(rng: Random, count: int, seen: set[str]) -> tuple[Problem, ...]:
    """`count` new problems, none with a question in `seen`, which grows."""
    found: list[Problem] = []
    while len(found) < count:
        new = problem(rng)
        if new.question not in seen:
            seen.add(new.question)
            found.append(new)
    return tuple(found)


@cache
def splits() -> Splits:
    """The problems of the embedded world; the same in every call and on every machine."""
    seen: set[str] = set()
    return Splits(draw(Random(11), VALIDATION, seen), draw(Random(12), TEST, seen), draw(Random(13), POOL, seen))


def stories() -> frozenset[tuple[str, ...]]:
    """What the benchmark's problems tell; a corpus must tell something else."""
    return frozenset(p.story for p in (*splits().validation, *splits().test))
