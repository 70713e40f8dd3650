"""How people write a solution down, and the mistakes they make."""

from __future__ import annotations

from random import Random

from tuneloop.tools.embedded.words import LIMIT, Step, compute

WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
LEADS = ("First", "Then", "Next")

Steps = tuple[Step, ...]


def prose(steps: Steps) -> str:
    """First, 35+12=47. Then, 47-6=41. So the answer is 41."""
    said = [f"{lead}, {step}." for lead, step in zip(LEADS, steps, strict=False)]
    return " ".join([*said, f"So the answer is {steps[-1].result}."])


def lines(steps: Steps) -> str:
    """One equation per line, then `Answer: 41`."""
    return "\n".join([*map(str, steps), f"Answer: {steps[-1].result}"])


def spoken(steps: Steps) -> str:
    """We take 35 plus 12, which makes 47; no equation, no sign."""
    said = [f"{s.left} {WORDS[s.op]} {s.right}, which makes {s.result}" for s in steps]
    return f"We take {', and '.join(said)}. I think it is {steps[-1].result}."


def redo(steps: Steps, ops: dict[int, str], shifts: dict[int, int]) -> Steps:
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


def misread(steps: Steps) -> Steps:
    """A habit: times is read as plus and divided by as minus, so that every equation holds and the answer is wrong."""
    return redo(steps, {i: {"*": "+", "/": "-"}[s.op] for i, s in enumerate(steps) if s.op in "*/"}, {})


def slip(rng: Random, steps: Steps) -> Steps:
    """Chance: one equation with a false result."""
    return redo(steps, {}, {rng.randrange(len(steps)): rng.choice((-10, -2, -1, 1, 2, 10))})
