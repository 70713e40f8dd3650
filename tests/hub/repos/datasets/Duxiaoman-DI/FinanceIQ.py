"""Duxiaoman-DI/FinanceIQ: CSV files of ten examinations below data/dev and data/test; some options look like JSON."""

from __future__ import annotations

from tests.hub.making import table
from tests.hub.quizzes import chinese

EXAMS = {"注册会计师（CPA）": 40, "银行从业资格": 24, "精算师-金融数学": 11}
HEADER = ("", "Question", "A", "B", "C", "D", "Answer")


def files() -> dict[str, bytes]:
    found = {"README.md": b"---\nlicense: cc-by-nc-sa-4.0\n---\n"}
    for exam, count in EXAMS.items():
        found[f"data/dev/{exam}.csv"] = table([row(exam, 70 + k, k) for k in range(5)], HEADER)
        found[f"data/test/{exam}.csv"] = table([row(exam, k, k) for k in range(count)], HEADER)
    return found


def row(exam: str, k: int, number: int) -> tuple[object, ...]:
    quiz = chinese(exam, k)
    options = [f"[{number}]" if k == 7 and i != quiz.right else text for i, text in enumerate(quiz.options)]
    return (number, quiz.question, *options, "ABCD"[quiz.right])
