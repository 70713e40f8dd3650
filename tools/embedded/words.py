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


def random_change(rng: Random, a: int) -> Step:
    """Something that can happen to `a` things and leaves a whole number of them, 1 to 60."""
    while True:
        op = rng.choices("+-*/", (3, 3, 2, 2))[0]
        b = rng.randint(*(ADDENDS if op in "+-" else FACTORS))
        if (op != "/" or a % b == 0) and 1 <= compute(a, op, b) <= LIMIT:
            return step(a, op, b)


def happening_sentence(rng: Random, done: Step, who: dict[str, str]) -> str:
    """The sentence that tells a change."""
    return rng.choice(HAPPENINGS[done.op]).format(k=done.right, **who)


# How people write a solution down, and the mistakes they make.

WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
LEADS = ("First", "Then", "Next")

Steps = tuple[Step, ...]


def prose_solution(steps: Steps) -> str:
    """First, 35+12=47. Then, 47-6=41. So the answer is 41."""
    said = [f"{lead}, {step}." for lead, step in zip(LEADS, steps, strict=False)]
    return " ".join([*said, f"So the answer is {steps[-1].result}."])


def equation_solution(steps: Steps) -> str:
    """One equation per line, then `Answer: 41`."""
    return "\n".join([*map(str, steps), f"Answer: {steps[-1].result}"])


def spoken_solution(steps: Steps) -> str:
    """We take 35 plus 12, which makes 47; no equation, no sign."""
    said = [f"{s.left} {WORDS[s.op]} {s.right}, which makes {s.result}" for s in steps]
    return f"We take {', and '.join(said)}. I think it is {steps[-1].result}."


def redo_steps(steps: Steps, ops: dict[int, str], shifts: dict[int, int]) -> Steps:
    """The same solution with other operators or shifted results at some steps, carried on to the end.

    Returns `steps` unchanged where a number would leave 0 to 60 or a division would not come out even.
    """
    done: list[Step] = []
    now: dict[int, int] = {}
    for i, old in enumerate(steps):
        a, op, b = now.get(old.left, old.left), ops.get(i, old.op), now.get(old.right, old.right)
        if op == "/" and (b == 0 or a % b):
            return steps
        result = compute(a, op, b) + shifts.get(i, 0)
        if not 0 <= result <= LIMIT:
            return steps
        now[old.result] = result
        done.append(Step(a, op, b, result))
    return tuple(done)


def misread_steps(steps: Steps) -> Steps:
    """A habit: times is read as plus and divided by as minus, so that every equation holds and the answer is wrong."""
    return redo_steps(steps, {i: {"*": "+", "/": "-"}[s.op] for i, s in enumerate(steps) if s.op in "*/"}, {})


def add_slip(rng: Random, steps: Steps) -> Steps:
    """Chance: one equation with a false result."""
    return redo_steps(steps, {}, {rng.randrange(len(steps)): rng.choice((-10, -2, -1, 1, 2, 10))})
