"""mbpp: write a small Python function from one sentence and three asserts; the asserts decide, outside of the reply's reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.code_tests import calls_from_asserts
from tuneloop.tools.benchmark_items.raw_rows import read_rows

TEST, TRAIN = ("full/test-*.parquet",), ("full/train-*.parquet", "full/validation-*.parquet", "full/prompt-*.parquet")
BENCHMARK = Benchmark(
    name="mbpp",
    domain="code",
    licence="CC-BY-4.0",
    source=Source(repo="google-research-datasets/mbpp", files=TEST, train=TRAIN),
    description=(
        "A sentence that describes a small Python function, and three asserts that it must satisfy. The reply is one ```python "
        "block with the function, its helpers and its imports; the last such block counts, and a reply without a block where it "
        "defines something. Only Python's standard library is there. All asserts must hold within 3 seconds of CPU time: values "
        "are compared as Python does, a tuple is no list. pass@1 is the share of tasks that pass."
    ),
    answer="code",
    final="```python\nANSWER\n```",
    # the benchmark's own sentence, zero-shot, and where to put the code
    prompt=(
        "You are an expert Python programmer, and here is your task: {text} Your code should pass these tests:\n\n{tests}\n\n"
        "Reply with the code in one ```python block."
    ),
    metric="pass@1",
    max_new_tokens=1024,
    seconds=3,
)


def pool(_: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set: 500 tasks."""
    for row in read_rows(raw, *TEST):
        asserts = "\n".join(line for line in (unified(row["test_setup_code"]), *map(unified, row["test_list"])) if line)
        calls, answer = calls_from_asserts(asserts, unified(row["code"]))
        yield Item(id=f"mbpp-{row['task_id']}", fields=asked(row), answer=answer, calls=calls)


def train(_: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The source's other rows: 474 tasks, each with a solution."""
    for row in read_rows(raw, *TRAIN):
        yield {**asked(row), "code": unified(row["code"])}


def asked(row: dict[str, Any]) -> dict[str, str]:
    """What a task shows."""
    return {"text": row["text"].strip(), "tests": "\n".join(map(unified, row["test_list"]))}


def unified(text: str | None) -> str:
    """With the ends of lines that Python has."""
    return (text or "").replace("\r\n", "\n").replace("\r", "\n").strip()
