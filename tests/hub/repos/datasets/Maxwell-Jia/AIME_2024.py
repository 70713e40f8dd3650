"""Maxwell-Jia/AIME_2024: ID, Problem, Solution, Answer (a number)."""

from __future__ import annotations

from tests.hub.contests import problems
from tests.hub.making import parquet


def files() -> dict[str, bytes]:
    rows = [
        {
            "ID": f"2024-{'I' * (1 + i // 15)}-{i % 15 + 1}",
            "Problem": text,
            "Solution": f"It is {answer}.",
            "Answer": answer,
        }
        for i, (text, answer) in enumerate(problems(4))
    ]
    return {"README.md": b"---\nlicense: mit\n---\n", "aime_2024_problems.parquet": parquet(rows)}
