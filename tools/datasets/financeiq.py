"""financeiq: Chinese financial examinations, without the questions that FinanceIQ_gen measures with."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tuneloop.core.catalog import Dataset, Source
from tuneloop.core.files import write_atomic
from tuneloop.tools.benchmark_items.raw_rows import find_files, read_csv
from tuneloop.tools.benchmarks.financeiq import kept

EXAMS = "data/test/*.csv"
DATASET = Dataset(
    name="financeiq",
    domain="finance",
    description=(
        "Multiple choice from ten Chinese financial examinations, a CSV file each: Question, A, B, C, D, Answer (a letter). Of "
        "each file the last 100 questions, or its second half where that is less, are the benchmark's and are cut off: 5,259 "
        "of 6,179 are left."
    ),
    licence="CC-BY-NC-SA-4.0",
    source=Source(repo="Duxiaoman-DI/FinanceIQ", files=(EXAMS, "README.md")),
    rows=5_259,
    teaches=("FinanceIQ",),
    reasoning="none",
    quality="Letters alone; reasons have to be written. The actuaries' examination has 22 questions: repeat it or leave it out.",
    gaps="From the same pool of examinations as the benchmark: other questions, the same subjects.",
)


def tidy(folder: Path) -> None:
    """Leave of each examination what the benchmark does not ask."""
    for file in find_files(folder, EXAMS):
        rows = read_csv(file.read_bytes())
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[: kept(rows)])
        write_atomic(file, text.getvalue())
