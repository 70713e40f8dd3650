"""gsm8k: grade school word problems; the number in the last box counts, else the last number of the reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import read_rows

BENCHMARK = Benchmark(
    name="gsm8k",
    domain="math",
    licence="MIT",
    source=Source(repo="openai/gsm8k", files=("main/test-*.parquet",), train=("main/train-*.parquet",)),
    description=(
        "Grade school word problems in English; the answer is a whole number, sometimes negative or above a thousand. "
        "Reason step by step and end with the number in \\boxed{}, for example \\boxed{1250}. The number in the last box "
        "counts; without a box the one after the last '####', else the last number of the reply. Thousands commas, "
        "currency signs, a trailing .00 and units do not matter. A reply without any number is wrong."
    ),
    answer="scorer:final_number",
    final="\\boxed{ANSWER}",
    prompt="{question}\nPlease reason step by step, and put your final answer within \\boxed{}.",
    max_new_tokens=2048,
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set: 1,319 problems."""
    for i, row in enumerate(read_rows(raw, "main/test-*.parquet")):
        _, answer = parted(row["answer"])
        yield Item(id=f"{benchmark.name}-{i:04}", fields={"question": row["question"].strip()}, answer=answer)


def train(_: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The source's training rows: 7,473 problems with worked solutions."""
    for row in read_rows(raw, "main/train-*.parquet"):
        solution, answer = parted(row["answer"])
        yield {"question": row["question"].strip(), "solution": solution, "answer": answer}


def parted(text: str) -> tuple[str, str]:
    """Worked solution and final number. Raises ValueError without the mark between them."""
    solution, mark, answer = text.rpartition("####")
    if not mark:
        raise ValueError(f"no #### in {text[:60]!r}")
    return solution.strip(), answer.strip().replace(",", "")
