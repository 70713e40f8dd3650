"""A row to learn from as a benchmark has it: the prompt that is asked, and what its verifier gets beside a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.benchmark_items.reasoning_gym import ENGINE
from tuneloop.tools.scoring import answer_matching, typed_json

TRAIN = "train.jsonl"  # in a benchmark's folder: rows to learn from, of its own
PLACE = re.compile(r"\{(\w+)\}")


def row_fields(benchmark: Benchmark, row: Mapping[str, Any]) -> dict[str, str]:
    """Texts and numbers of the row that the benchmark's prompt names."""
    named = {name: row.get(name) for name in PLACE.findall(benchmark.prompt) if name != "answer"}
    plain = {name: value for name, value in named.items() if isinstance(value, str | int | float)}
    return {name: str(value) for name, value in plain.items() if not isinstance(value, bool)}


def asked_prompt(benchmark: Benchmark, row: Mapping[str, Any]) -> str:
    """The row as the evaluation would ask it; "" where it lacks a field, so that it is no item."""
    fields = row_fields(benchmark, row)
    return answer_matching.render(benchmark.prompt, fields) if fields else ""


def verifier_item(benchmark: Benchmark, row: Mapping[str, Any]) -> dict[str, Any]:
    """The object that the verifier gets of an item like this. Raises RecursionError for a row that is nested without end."""
    if benchmark.engine == ENGINE:
        return {"entry": row.get("entry") or typed_json.encoded(dict(row))}
    return {name: value for name, value in row.items() if name != "id"}
