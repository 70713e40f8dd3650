"""MathArena/aime_2026: problem_idx, answer (a number), problem."""

from __future__ import annotations

from tests.hub.contests import problems
from tests.hub.making import parquet


def files() -> dict[str, bytes]:
    rows = [{"problem_idx": i, "answer": answer, "problem": text} for i, (text, answer) in enumerate(problems(6), 1)]
    return {"README.md": b"---\nlicense: cc-by-nc-sa-4.0\n---\n", "data/train-00000-of-00001.parquet": parquet(rows)}
