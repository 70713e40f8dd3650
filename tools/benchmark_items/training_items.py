"""A row to learn from as a benchmark has it: the prompt that is asked, and what its verifier gets beside a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.benchmark_items.reasoning_gym import ENGINE
from tuneloop.tools.scoring import answer_matching

TRAIN = "train.jsonl"  # in a benchmark's folder: rows to learn from, of its own
PLACE = re.compile(r"\{(\w+)\}")


def row_fields(benchmark: Benchmark, row: Mapping[str, Any]) -> dict[str, str]:
    """The row's fields that the benchmark's prompt names, as text."""
    named = {name: row.get(name) for name in PLACE.findall(benchmark.prompt) if name != "answer"}
    texts = {name: field_text(benchmark, value) for name, value in named.items()}
    return {name: text for name, text in texts.items() if text is not None}


def field_text(benchmark: Benchmark, value: object) -> str | None:
    """A text, a number or a list of them as the prompt shows it; None for anything else."""
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str | int | float) and not isinstance(entry, bool) for entry in entries):
        return None
    return list_text(benchmark, list(map(str, entries))) if isinstance(value, list) else str(value)


def list_text(benchmark: Benchmark, entries: Sequence[str]) -> str:
    """A list, one entry a line, lettered where the answer is a letter."""
    lettered = benchmark.answer == "choice"
    return "\n".join(f"{chr(ord('A') + i)}. {entry}" if lettered else entry for i, entry in enumerate(entries))


def asked_prompt(benchmark: Benchmark, row: Mapping[str, Any]) -> str:
    """The row as the evaluation would ask it; "" where it lacks a field, so that it is no item."""
    fields = row_fields(benchmark, row)
    return answer_matching.render(benchmark.prompt, fields) if fields else ""


def verifier_item(benchmark: Benchmark, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The object that the verifier gets of an item like this; None where the row does not hold it.

    Of reasoning_gym only the `entry` is one: what a row says otherwise has lost its types.
    """
    if benchmark.engine == ENGINE:
        return {"entry": row["entry"]} if row.get("entry") else None
    return {name: value for name, value in row.items() if name != "id"}
