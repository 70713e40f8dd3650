"""wordproblems: little stories of two to four arithmetic steps, for a tiny base model on two CPU cores; made, not downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tuneloop.core.catalog import Benchmark
from tuneloop.core.files import write_lines
from tuneloop.tools.embedded.problems import SUFFIX, Problem, more_validation, splits

TRAINING = 2000  # solved problems

BENCHMARK = Benchmark(
    name="wordproblems",
    domain="math",
    licence="Apache-2.0",
    description=(
        "Word problems in English with two to four steps of + - * / and whole numbers up to 60. "
        "The reply ends with the final number in \\boxed{}, for example \\boxed{41}; the last box counts."
    ),
    answer="boxed",
    prompt="{prompt}",
    metric="accuracy",
    direction="max",
    max_new_tokens=96,
)


def fetch(folder: Path) -> None:
    """Write `validation.jsonl` and `sealed/test.jsonl`; the same bytes every time."""
    write_lines(folder / "validation.jsonl", items("validation", (*splits().validation, *more_validation())))
    write_lines(folder / "sealed" / "test.jsonl", items("test", splits().test))


def train(_: Benchmark, raw: Path) -> Iterator[dict[str, str]]:  # noqa: ARG001 - made, not read
    """Solved problems of the training pool, without the defects of the raw data set: an equation a line."""
    for p in splits().pool[:TRAINING]:
        yield {"prompt": p.question + SUFFIX, "solution": "\n".join(map(str, p.steps)), "answer": str(p.answer)}


def items(split: str, problems: Iterable[Problem]) -> list[dict[str, str]]:
    """Items as the evaluation reads them."""
    return [
        {"id": f"{split}-{i:03}", "prompt": p.question + SUFFIX, "answer": str(p.answer)}
        for i, p in enumerate(problems)
    ]
