"""What of a recipe's rows GRPO trains on: prompts, and what the scorer has of each."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark
from tuneloop.core.files import read_json, read_lines
from tuneloop.tools.benchmark_items.training_items import TRAIN, asked_prompt, verifier_item
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.raw_data.client import shared_reader
from tuneloop.tools.raw_data.files import record_files
from tuneloop.tools.scoring.answer_matching import blanks
from tuneloop.tools.scoring.scorer import judge_reply

Row = Mapping[str, Any]


@dataclass(frozen=True)
class GrpoItems:
    """Prompts and what the scorer has of each: the right answer or, for a verifier, the item.

    `dropped`: rows that say nothing of that, whose prompt stands for two of them, or that repeat one.
    """

    prompts: tuple[str, ...]
    golds: tuple[dict[str, Any], ...]
    dropped: int


def read_items(run_tools: RunTools, file: Path) -> GrpoItems:
    """The items of the rows in `file`."""
    benchmark, rows = run_tools.setup.benchmark, read_json(file)
    if not benchmark.verified:
        return answered_items(benchmark, rows)
    # The benchmark's own training rows come last: they have whole items, of which its data set has the readable part.
    return verified_items(benchmark, rows, (data_set_rows(run_tools), own_rows(run_tools)))


def answered_items(benchmark: Benchmark, rows: Iterable[Row]) -> GrpoItems:
    """The right answer is what the benchmark's own scorer reads in the output."""
    found: dict[str, set[str]] = {}
    count = 0
    for row in rows:
        count += 1
        answer = judge_reply(benchmark, "", row["output"])["parsed"]
        if answer is not None and judge_reply(benchmark, answer, row["output"])["value"] == 1:
            found.setdefault(row_prompt(row), set()).add(answer)
    sure = {prompt: next(iter(told)) for prompt, told in found.items() if len(told) == 1}
    return GrpoItems(tuple(sure), tuple({"answer": gold} for gold in sure.values()), count - len(sure))


def verified_items(benchmark: Benchmark, rows: Iterable[Row], sources: Iterable[Iterable[Row]]) -> GrpoItems:
    """The item is the raw row that the benchmark asks with the same prompt, of the last source that has one.

    What the outputs say decides nothing.
    """
    prompts = [row_prompt(row) for row in rows]
    wanted, found = set(map(blanks, prompts)), dict[str, list[dict[str, Any]]]()
    for raw in sources:
        found |= find_items(benchmark, raw, wanted)
    items = {prompt: found.get(blanks(prompt), []) for prompt in prompts}
    sure = {prompt: {"item": own[0]} for prompt, own in items.items() if len(own) == 1}
    return GrpoItems(tuple(sure), tuple(sure.values()), len(prompts) - len(sure))


def find_items(benchmark: Benchmark, raw: Iterable[Row], wanted: Container[str]) -> dict[str, list[dict[str, Any]]]:
    """The different items of each wanted prompt."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in raw:
        if (asked := blanks(asked_prompt(benchmark, row))) in wanted:
            with suppress(RecursionError):  # nested without end it is no item
                if (item := verifier_item(benchmark, row)) is not None:
                    found.setdefault(asked, {})[json.dumps(item, sort_keys=True)] = item
    return {prompt: list(items.values()) for prompt, items in found.items()}


def data_set_rows(run_tools: RunTools) -> Iterator[Row]:
    """Raw rows of the run's data sets, as agents see them: none holds an item of the sealed halves."""
    for root in run_tools.setup.datasets.values():
        for file in record_files(root):
            yield from (line.row for line in shared_reader().rows(root, file) if line.row is not None)


def own_rows(run_tools: RunTools) -> Iterator[Row]:
    """Training rows in the benchmark's own folder."""
    file = run_tools.setup.benchmark_root / TRAIN
    return read_lines(file) if file.is_file() else iter(())


def row_prompt(row: Row) -> str:
    """What a row asks, as the engine joins its fields."""
    return "\n".join(filter(None, (row["instruction"], row.get("input", ""))))
