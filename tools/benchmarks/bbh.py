"""bbh: the 23 hard tasks of BIG-Bench, 27 sets in all, each with its own kind of answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.core.records import records
from tuneloop.tools.benchmark_items.raw_rows import find_files

BENCHMARK = Benchmark(
    name="bbh",
    domain="reasoning",
    licence="MIT",
    source=Source(repo="SaylorTwift/bbh", files=("*/test-*.parquet",)),
    description=(
        "27 sets of reasoning puzzles in English: logic, dates, tracking of objects, sorting of words, closing of brackets, "
        "arithmetic. One may think first; the reply ends with 'So the answer is X.' What stands after the last 'answer is' (or "
        "in a later \\boxed{}) counts. X is what the question asks for: an option in its brackets, (C) or C; True or False; yes "
        "or no; valid or invalid; a number; the sorted words with blanks or commas between them; the missing brackets in "
        "order. Letters' case and a full stop do not matter. A reply without such a statement counts only when it is the "
        "bare answer. All items count the same, and every set is reported."
    ),
    answer="scorer:bbh",
    final="So the answer is ANSWER.",
    prompt="Question: {input}\nThink step by step. End with 'So the answer is X.', where X is the answer alone.",
    max_new_tokens=2048,
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public set: 6,511 items."""
    for path in find_files(raw, "*/test-*.parquet"):
        for i, row in enumerate(records(path)):
            task = path.parent.name
            item_id = f"{benchmark.name}-{task}-{i:03}"
            yield Item(id=item_id, fields={"input": row["input"].strip()}, answer=row["target"].strip(), group=task)
