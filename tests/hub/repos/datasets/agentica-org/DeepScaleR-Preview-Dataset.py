"""DeepScaleR-Preview in its real form, made up: one JSON list; most solutions are empty, some answers are no integers."""

import json

CARD = "---\nlicense: mit\nlanguage:\n- en\n---\n# Made up\n"
ODD = {7: "\\frac{3}{7}", 11: "12\\sqrt{2}", 13: "x^2+1", 17: "(2, 5)"}


def files() -> dict[str, bytes]:
    """Bytes of the repository's files by name."""
    return {"README.md": CARD.encode(), "deepscaler.json": json.dumps([row(n) for n in range(60)], indent=2).encode()}


def row(n: int) -> dict[str, str]:
    """A problem; every fifth has its solution."""
    a, b = n * 7 % 31 + 2, n * 5 % 17 + 1
    solution = (
        f"The box holds ${a}\\cdot {b}={a * b}$ marbles, so the answer is $\\boxed{{{a * b}}}$." if n % 5 == 0 else ""
    )
    problem = f"A box has ${a}$ layers of ${b}$ marbles each. Find the number of marbles in box ${n}$."
    return {"problem": problem, "answer": ODD.get(n, str(a * b)), "solution": solution}
