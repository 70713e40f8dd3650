"""math, math500: Hendrycks' contest problems, and the 500 of them that are usually reported; compared as mathematics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import read_rows
from tuneloop.tools.scoring.answer_matching import box

DESCRIPTION = (
    "Contest problems in seven subjects and five levels. Reason step by step and end with the answer in \\boxed{{}}, in LaTeX, "
    "for example \\boxed{{\\frac{{3}}{{4}}}}. The last box counts. It is compared as mathematics (math-verify): equal "
    "fractions, decimals, roots, polynomials, sets, intervals and matrices are equal however they are written; units, currency "
    "and degree signs do not matter; tuples and intervals keep their order, and the brackets that are written. Without a box "
    "only 'The final answer is $...$' counts. What cannot be read is wrong. {0}"
)
PROMPT = "{problem}\nPlease reason step by step, and put your final answer within \\boxed{}."


def declared(name: str, more: str, source: Source) -> Benchmark:
    """The declaration of one of the two."""
    return Benchmark(
        name=name,
        domain="math",
        licence="MIT",
        source=source,
        description=DESCRIPTION.format(more),
        answer="scorer:math_answer",
        final="\\boxed{ANSWER}",
        prompt=PROMPT,
        max_new_tokens=4096,
    )


BENCHMARKS = (
    declared(
        "math",
        "The public test set has 5,000 problems.",
        Source(repo="EleutherAI/hendrycks_math", files=("*/test-*.parquet",), train=("*/train-*.parquet",)),
    ),
    declared(
        "math500",
        "These are 500 of the public test set's 5,000 problems.",
        Source(repo="HuggingFaceH4/MATH-500", files=("test.jsonl",)),
    ),
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set; a problem of both benchmarks is the same item in both and falls on the same side of the split."""
    assert benchmark.source
    for i, row in enumerate(read_rows(raw, *benchmark.source.files)):
        found = problem(row)
        fields = {"problem": found["problem"]}
        yield Item(id=f"{benchmark.name}-{i:04}", fields=fields, answer=found["answer"], group=found["subject"])


def train(benchmark: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The source's training rows: 7,500 problems with worked solutions."""
    assert benchmark.source
    return map(problem, read_rows(raw, *benchmark.source.train))


def problem(row: dict[str, Any]) -> dict[str, str]:
    """A source's row; the answer is the last box of its solution. Raises ValueError without one."""
    answer = box(row["solution"])
    if not answer:
        raise ValueError(f"no box in the solution of {row['problem'][:60]!r}")
    return {
        "problem": row["problem"].strip(),
        "solution": row["solution"].strip(),
        "answer": answer,
        "subject": row.get("subject") or row["type"],
        "level": str(row["level"]),
    }
