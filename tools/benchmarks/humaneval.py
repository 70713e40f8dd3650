"""humaneval: complete a Python function from its head; hidden tests decide, run where the reply's code cannot reach them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.code_tests import calls_from_check
from tuneloop.tools.benchmark_items.raw_rows import read_rows

FILES = ("openai_humaneval/test-*.parquet",)
BENCHMARK = Benchmark(
    name="humaneval",
    domain="code",
    licence="MIT",
    source=Source(repo="openai/openai_humaneval", files=FILES),
    description=(
        "The head of a Python function with its docstring; write the whole function. The reply is one ```python block with the "
        "function, its helpers and its imports; the last such block counts. A reply without a block counts as code where it "
        "defines something, or where it goes on with the indented body. The head stands before the code, so its imports and "
        "helpers are there; only Python's standard library is. All hidden tests must pass within 3 seconds of CPU time: values "
        "are compared as Python does, a tuple is no list. pass@1 is the share of functions that pass."
    ),
    answer="code",
    final="```python\nANSWER\n```",
    # the words of OpenCompass's humaneval_gen, and where to put the code
    prompt=(
        "Read the following function signature and docstring, and fully implement the function described. Your response should "
        "only contain the code for this function, in one ```python block.\n\n```python\n{head}\n```"
    ),
    metric="pass@1",
    max_new_tokens=1024,
    seconds=3,
)


def pool(_: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set: 164 functions."""
    for row in read_rows(raw, *FILES):
        calls, answer = calls_from_check(row["test"], row["entry_point"], row["prompt"])
        name = row["task_id"].replace("/", "-")
        yield Item(id=name, fields={"head": row["prompt"].strip("\n")}, answer=answer, calls=calls)
