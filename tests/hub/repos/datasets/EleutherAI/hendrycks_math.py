"""EleutherAI/hendrycks_math: a folder for each subject; problem, level, type, solution."""

from __future__ import annotations

from tests.hub.hendrycks import SUBJECTS, rows
from tests.hub.making import parquet


def files() -> dict[str, bytes]:
    found = {"README.md": b"---\nlicense: mit\n---\n"}
    for subject in SUBJECTS:
        found[f"{subject}/test-00000-of-00001.parquet"] = parquet(rows(subject, 0, 8))
        found[f"{subject}/train-00000-of-00001.parquet"] = parquet(rows(subject, 1000, 4))
    return found
