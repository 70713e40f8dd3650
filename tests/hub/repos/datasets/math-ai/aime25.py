"""math-ai/aime25: problem, answer as a text, id."""

from __future__ import annotations

from tests.hub.contests import problems
from tests.hub.making import jsonl


def files() -> dict[str, bytes]:
    rows = [{"problem": text, "answer": str(answer), "id": str(i)} for i, (text, answer) in enumerate(problems(5))]
    rows[3]["answer"] += "^\\circ"
    return {"README.md": b"---\nlicense: apache-2.0\n---\n", "test.jsonl": jsonl(rows)}
