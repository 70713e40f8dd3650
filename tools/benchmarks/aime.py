"""aime24, aime25: the thirty problems of one year's contest, eight replies to each; validation is another year's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import read_rows

SAMPLES = 8
# The public data set with contest problems to learn from (DeepScaleR) ends with 2023. 2026 is the validation of both, so
# that a run on both never shows an agent one's test as the other's validation.
VALIDATION = Source(repo="MathArena/aime_2026", files=("data/train-*.parquet",))
TESTS = {
    "aime24": Source(repo="Maxwell-Jia/AIME_2024", files=("aime_2024_problems.parquet",)),
    "aime25": Source(repo="math-ai/aime25", files=("test.jsonl",)),
}


def declared(name: str, year: int, source: Source, licence: str, *, judge: bool = False) -> Benchmark:
    """The declaration of one year."""
    return Benchmark(
        name=name,
        domain="math",
        licence=licence,
        source=source,
        more=(VALIDATION,),
        description=(
            f"Problems of the American Invitational Mathematics Examination: the sealed test is all of {year}, validation "
            f"all of 2026. Every answer is a whole number from 0 to 999. Reason step by step and end with it in \\boxed{{}}, "
            f"for example \\boxed{{204}}; leading zeros do not matter, and of an equation in the box its right side counts. "
            f"Without a box the number after the last 'answer is' or 'Answer:' counts; anything else is wrong. Each problem "
            f"is answered {SAMPLES} times (temperature 0.6, top-p 0.95), and the score is the mean."
        ),
        answer="scorer:contest_integer",
        final="\\boxed{ANSWER}",
        prompt="{problem}\nPlease reason step by step, and put your final answer within \\boxed{}.",
        max_new_tokens=32768,
        samples=SAMPLES,
        temperature=0.6,
        top_p=0.95,
        judge=judge,
    )


# OpenCompass's own aime25 asks a judge about what its rule does not call right; so does ours where one is configured.
BENCHMARKS = (
    declared("aime24", 2024, TESTS["aime24"], "MIT (validation: CC-BY-NC-SA-4.0)"),
    declared("aime25", 2025, TESTS["aime25"], "Apache-2.0 (validation: CC-BY-NC-SA-4.0)", judge=True),
)


def splits(benchmark: Benchmark, raw: Path, other_year: Path) -> tuple[list[Item], list[Item]]:
    """Another year's problems, and all of the benchmark's own."""
    year = f"20{benchmark.name[-2:]}"
    return list(problems(other_year, VALIDATION, "2026")), list(problems(raw, TESTS[benchmark.name], year))


def problems(raw: Path, source: Source, year: str) -> Iterator[Item]:
    """A year's problems; each source has names of its own for the two columns."""
    for i, row in enumerate(read_rows(raw, *source.files), 1):
        fields = {"problem": str(column(row, "problem", "Problem")).strip()}
        yield Item(id=f"aime-{year}-{i:02}", fields=fields, answer=integer(column(row, "answer", "Answer")))


def column(row: dict[str, Any], *names: str) -> Any:
    """The first column of these names that is there. Raises KeyError when none is."""
    return row[next((name for name in names if name in row), names[0])]


def integer(answer: object) -> str:
    r"""The number of an answer column, as in 33, "033" or `"33^\circ"`. Raises ValueError without one."""
    found = re.match(r"\d{1,3}(?!\d)", str(answer).strip())
    if not found:
        raise ValueError(f"answer {str(answer)[:40]!r} is no number from 0 to 999")
    return str(int(found[0]))
