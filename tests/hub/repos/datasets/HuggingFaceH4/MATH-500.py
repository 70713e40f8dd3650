"""HuggingFaceH4/MATH-500: some of the test problems, with answer, subject, a number as level, unique_id."""

from __future__ import annotations

from tests.hub.hendrycks import SUBJECTS, rows
from tests.hub.making import jsonl


def files() -> dict[str, bytes]:
    found = []
    for subject, name in SUBJECTS.items():
        for i, row in enumerate(rows(subject, 0, 6)):
            answer = row["solution"].rpartition("\\boxed{")[2].removesuffix("}$.")
            found.append(
                {
                    "problem": row["problem"],
                    "solution": row["solution"],
                    "answer": answer,
                    "subject": name,
                    "level": int(row["level"][-1]),
                    "unique_id": f"test/{subject}/{i}.json",
                }
            )
    return {"README.md": b"# MATH-500\n", "test.jsonl": jsonl(found)}
