"""mmlu: multiple choice in 57 subjects; the prompt and the last line that it asks for are OpenAI's simple-evals'."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import CHOSEN, LETTERS, lettered_options, read_rows

BENCHMARK = Benchmark(
    name="mmlu",
    domain="knowledge",
    licence="MIT",
    source=Source(repo="cais/mmlu", files=("all/test-*.parquet",), train=("all/auxiliary_train-*.parquet",)),
    description=(
        "Multiple choice with four options A to D in 57 subjects, from law to anatomy, in English. One may think first; the "
        "reply ends with a line 'ANSWER: X' where X is the letter. "
        + CHOSEN
        + " All items count the same, and every subject is reported."
    ),
    answer="choice",
    final="Answer: ANSWER",
    prompt=(
        "Answer the following multiple choice question. The last line of your response should be of the following format: "
        "'ANSWER: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.\n\n"
        "{question}\n\n{options}"
    ),
    max_new_tokens=2048,
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set: 14,042 questions."""
    for i, row in enumerate(read_rows(raw, "all/test-*.parquet")):
        fields = {"question": row["question"].strip(), "options": lettered_options(row["choices"])}
        answer = LETTERS[row["answer"]]
        yield Item(id=f"{benchmark.name}-{i:05}", fields=fields, answer=answer, group=row["subject"])


def train(_: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The source's training rows: 99,842 questions of other sets (ARC, RACE, OBQA, MC-TEST), without a subject."""
    for row in read_rows(raw, "all/auxiliary_train-*.parquet"):
        options = lettered_options(row["choices"])
        yield {"question": row["question"].strip(), "options": options, "answer": LETTERS[row["answer"]]}
