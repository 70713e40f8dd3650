"""hellaswag: which of four endings continues a text; asked for as a letter instead of by the endings' likelihood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import CHOSEN, LETTERS, lettered_options, read_rows

BENCHMARK = Benchmark(
    name="hellaswag",
    domain="knowledge",
    licence="MIT",
    source=Source(repo="Rowan/hellaswag", files=("data/validation-*.parquet",), train=("data/train-*.parquet",)),
    description=(
        "A short text about an everyday activity and four endings A to D, one of which is how it really goes on; in English. "
        "The reply ends with 'The answer is X.' where X is the letter. "
        + CHOSEN
        + " The two halves of the source, WikiHow and ActivityNet, are reported apart."
    ),
    answer="choice",
    final="The answer is ANSWER.",
    prompt=(
        "Which ending continues the text best? You may think first; end with 'The answer is X.' where X is the letter of the "
        "ending.\n\nText: {text}\n{endings}"
    ),
    max_new_tokens=1024,
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The source's validation rows, 10,042: its test rows have no answers. Texts of one clip or article stay together."""
    for row in read_rows(raw, "data/validation-*.parquet"):
        found = continued(row)
        fields = {"text": found["text"], "endings": found["endings"]}
        origin = row["source_id"].partition("~")[0]
        item = Item(id=f"{benchmark.name}-{row['ind']}", fields=fields, answer=found["answer"])
        yield item.model_copy(update={"group": origin, "cluster": row["source_id"]})


def train(_: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The source's training rows: 39,905."""
    return map(continued, read_rows(raw, "data/train-*.parquet"))


def continued(row: dict[str, Any]) -> dict[str, str]:
    """A source's row, with the cleaning that its authors' successors agreed on."""
    text = cleaned(f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}")
    return {
        "text": text,
        "endings": lettered_options(map(cleaned, row["endings"])),
        "answer": LETTERS[int(row["label"])],
    }


def cleaned(text: str) -> str:
    """Without WikiHow's marks."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return re.sub(r" {2,}", " ", text).strip()
