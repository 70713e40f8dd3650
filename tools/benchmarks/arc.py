"""arc_c, arc_e: school science questions with three to five options; `arc` stands for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import CHOSEN, LETTERS, lettered_options, read_rows

FOLDERS = {"arc_c": "ARC-Challenge", "arc_e": "ARC-Easy"}
ASKED = (
    "School science questions in English, mostly with four options; {which}. The reply ends with 'The answer is X.' where X "
    "is the letter. {chosen}"
)


def declared(name: str, which: str) -> Benchmark:
    """The declaration of one of the two."""
    folder = FOLDERS[name]
    return Benchmark(
        name=name,
        domain="knowledge",
        licence="CC-BY-SA-4.0",
        source=Source(
            repo="allenai/ai2_arc",
            files=(f"{folder}/test-*.parquet",),
            train=(f"{folder}/train-*.parquet", f"{folder}/validation-*.parquet"),
        ),
        description=ASKED.format(which=which, chosen=CHOSEN),
        answer="choice",
        final="The answer is ANSWER.",
        prompt=(
            "Choose the best answer to the following question. You may think first; end with 'The answer is X.' where X is "
            "the letter of the option.\n\nQuestion: {question}\n{options}"
        ),
        max_new_tokens=2048,
    )


BENCHMARKS = (
    declared("arc_c", "those that retrieval and word counts got wrong (ARC-Challenge, 1,172 public test items)"),
    declared("arc_e", "the easier ones (ARC-Easy, 2,376 public test items)"),
    Benchmark(
        name="arc",
        domain="knowledge",
        licence="CC-BY-SA-4.0",
        description="School science questions: ARC-Challenge and ARC-Easy.",
        parts=("arc_c", "arc_e"),
    ),
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set; questions of one exam that share their text stay together by their text."""
    for row in read_rows(raw, f"{FOLDERS[benchmark.name]}/test-*.parquet"):
        found = question(row)
        fields = {"question": found["question"], "options": found["options"]}
        yield Item(id=row["id"], fields=fields, answer=found["answer"])


def train(benchmark: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The source's training and development rows."""
    assert benchmark.source
    return map(question, read_rows(raw, *benchmark.source.train))


def question(row: dict[str, Any]) -> dict[str, str]:
    """A source's row; some label their options 1 to 4, here all have letters. Raises ValueError for a key that is no label."""
    answer = LETTERS[row["choices"]["label"].index(row["answerKey"])]
    return {
        "question": row["question"].strip(),
        "options": lettered_options(row["choices"]["text"], "."),
        "answer": answer,
    }
