"""The words of the little world: people, things, what can happen to them, and the arithmetic behind it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

LIMIT = 60
GIRLS = ("Anna", "Emma", "Lily", "Maya", "Nora", "Olga", "Ruth", "Sara")
BOYS = ("Adam", "Ben", "Carl", "Dan", "Finn", "Hugo", "Jack", "Tom")
THINGS = ("apples", "books", "cards", "coins", "eggs", "keys", "lemons", "nuts", "pens", "shells", "stones", "toys")
HAPPENINGS = {
    "+": ("{He} buys {k} more.", "{He} finds {k} more.", "{other} gives {him} {k} more."),
    "-": ("{He} loses {k}.", "{He} sells {k}.", "{He} gives {k} to {other}."),
    "*": ("{He} gets {k} times as many.", "Now there are {k} times as many."),
    "/": ("{He} splits them into {k} equal parts and keeps one.", "{He} keeps one of {k} equal parts."),
}
ADDENDS, FACTORS = (2, 12), (2, 4)


def compute(a: int, op: str, b: int) -> int:
    """`a op b` in whole numbers."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a // b
    raise ValueError(f"operator is {op!r}; right is one of + - * /")


@dataclass(frozen=True)
class Step:
    """One equation as somebody wrote it; whether it holds is another question."""

    left: int
    op: str
    right: int
    result: int

    @property
    def holds(self) -> bool:
        """Whether the equation is true, division without rest included."""
        if self.op == "/" and (self.right == 0 or self.left % self.right):
            return False
        return compute(self.left, self.op, self.right) == self.result

    def __str__(self) -> str:
        return f"{self.left}{self.op}{self.right}={self.result}"


def step(a: int, op: str, b: int) -> Step:
    """The true equation for `a op b`."""
    return Step(a, op, b, compute(a, op, b))


def people(rng: Random) -> dict[str, str]:
    """Two names, the pronouns of the first, and what they own: the words a sentence is filled with."""
    name, other = rng.sample(GIRLS + BOYS, 2)
    he, him = ("She", "her") if name in GIRLS else ("He", "him")
    return {"name": name, "other": other, "He": he, "him": him, "things": rng.choice(THINGS)}


def change(rng: Random, a: int) -> Step:
    """Something that can happen to `a` things and leaves a whole number of them, 1 to 60."""
    while True:
        op = rng.choices("+-*/", (3, 3, 2, 2))[0]
        b = rng.randint(*(ADDENDS if op in "+-" else FACTORS))
        if (op != "/" or a % b == 0) and 1 <= compute(a, op, b) <= LIMIT:
            return step(a, op, b)


def happening(rng: Random, done: Step, who: dict[str, str]) -> str:
    """The sentence that tells a change."""
    return rng.choice(HAPPENINGS[done.op]).format(k=done.right, **who)
