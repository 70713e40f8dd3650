"""allenai/ai2_arc: id, question, choices {text, label}, answerKey; some have labels 1 to 4, some three or five options."""

from __future__ import annotations

from tests.hub.making import parquet
from tests.hub.quizzes import LETTERS, english


def files() -> dict[str, bytes]:
    found = {"README.md": b"---\nlicense: cc-by-sa-4.0\n---\n"}
    for folder, start in (("ARC-Challenge", 0), ("ARC-Easy", 200)):
        for split, first, count in (("test", 0, 30), ("train", 60, 12), ("validation", 90, 6)):
            rows = [row(folder, start + first + k) for k in range(count)]
            found[f"{folder}/{split}-00000-of-00001.parquet"] = parquet(rows)
    return found


def row(folder: str, k: int) -> dict[str, object]:
    quiz = english("tides and rocks", k, {0: 5, 1: 3}.get(k % 10, 4))
    labels = list("12345" if k % 4 == 3 else LETTERS)[: len(quiz.options)]
    choices = {"text": list(quiz.options), "label": labels}
    return {"id": f"{folder}_{k}", "question": quiz.question, "choices": choices, "answerKey": labels[quiz.right]}
