"""cais/mmlu: question, subject, choices (a list), answer (0 to 3); `all/` holds every subject."""

from __future__ import annotations

from tests.hub.making import parquet
from tests.hub.quizzes import english

SUBJECTS = ("abstract_algebra", "anatomy", "professional_law", "world_religions")


def files() -> dict[str, bytes]:
    test = [row(subject, k) for subject in SUBJECTS for k in range(12)]
    again = {**test[0], "question": str(test[0]["question"]).replace(",", " ,")}
    return {
        "README.md": b"---\nlicense: mit\n---\n",
        "all/test-00000-of-00001.parquet": parquet([*test, again]),
        "all/dev-00000-of-00001.parquet": parquet([row(subject, 50 + k) for subject in SUBJECTS for k in range(5)]),
        "all/validation-00000-of-00001.parquet": parquet(
            [row(subject, 60 + k) for subject in SUBJECTS for k in range(3)]
        ),
        "all/auxiliary_train-00000-of-00001.parquet": parquet(
            [{**row("moss", 100 + k), "subject": ""} for k in range(20)]
        ),
        "anatomy/test-00000-of-00001.parquet": parquet([row("anatomy", k) for k in range(12)]),
    }


def row(subject: str, k: int) -> dict[str, object]:
    quiz = english(subject.replace("_", " "), k)
    return {"question": quiz.question, "subject": subject, "choices": list(quiz.options), "answer": quiz.right}
