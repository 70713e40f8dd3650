"""haonan-li/cmmlu: an archive of CSV files, dev and test of each subject; the first column has no name."""

from __future__ import annotations

from tests.hub.making import archive, table
from tests.hub.quizzes import chinese

SUBJECTS = {"agronomy": "农学", "chinese_history": "中国历史", "college_law": "大学法律", "nutrition": "营养学"}
HEADER = ("", "Question", "A", "B", "C", "D", "Answer")


def files() -> dict[str, bytes]:
    packed = {}
    for split, start, count in (("dev", 50, 5), ("test", 0, 12)):
        for name, topic in SUBJECTS.items():
            packed[f"{split}/{name}.csv"] = table([row(topic, start + k, k) for k in range(count)], HEADER)
    return {
        "README.md": b"---\nlicense: cc-by-nc-4.0\n---\n",
        "cmmlu_v1_0_1.zip": archive(packed),
        "cmmlu.py": b"raise\n",
    }


def row(topic: str, k: int, number: int) -> tuple[object, ...]:
    quiz = chinese(topic, k)
    return (number, quiz.question + (" \n" if k == 3 else ""), *quiz.options, "ABCD"[quiz.right])
