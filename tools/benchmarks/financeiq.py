"""FinanceIQ_gen: Chinese multiple choice from ten financial examinations, behind five solved questions of the same one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import CHOSEN, find_files, lettered_options, read_csv

SHOTS = 5
POOL = 100
BENCHMARK = Benchmark(
    name="FinanceIQ_gen",
    domain="finance",
    licence="CC-BY-NC-SA-4.0",
    source=Source(
        repo="Duxiaoman-DI/FinanceIQ", files=("data/dev/*.csv", "data/test/*.csv"), train=("data/test/*.csv",)
    ),
    description=(
        "Multiple choice with four options A to D from ten Chinese financial examinations, in Chinese. Five solved questions "
        "of the same examination stand before the one that is asked; the reply is the letter, and reasoning before "
        "'答案是: X' is allowed. " + CHOSEN + " All items count the same, and every examination is reported."
    ),
    answer="choice",
    final="答案是: ANSWER",
    prompt="{solved}以下是关于{subject}的单项选择题，请直接给出正确答案的选项。\n题目：{question}\n{options}\n答案是: ",
    stop=("\n题目：", "以下是关于"),
    max_new_tokens=1024,
    test_size=600,
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """Of each examination the last 100 questions of its file, or the second half; the others are there to learn from."""
    for path in find_files(raw, "data/test/*.csv"):
        subject = path.stem
        solved = [example(subject, row) for row in read_csv((raw / "data" / "dev" / path.name).read_bytes())[:SHOTS]]
        found = read_csv(path.read_bytes())
        for i, row in enumerate(found[kept(found) :], kept(found)):
            fields = {"subject": subject, "solved": "".join(solved), **asked(row)}
            yield Item(id=f"{benchmark.name}-{subject}-{i:04}", fields=fields, answer=row["Answer"], group=subject)


def train(benchmark: Benchmark, raw: Path) -> Iterator[dict[str, str]]:
    """The questions that are not in the pool."""
    assert benchmark.source
    for path in find_files(raw, *benchmark.source.train):
        found = read_csv(path.read_bytes())
        for row in found[: kept(found)]:
            yield {"subject": path.stem, **asked(row), "answer": row["Answer"]}


def kept(found: list[dict[str, str]]) -> int:
    """How many of an examination's questions are there to learn from."""
    return len(found) - min(-(-len(found) // 2), POOL)


def asked(row: dict[str, str]) -> dict[str, str]:
    """Question and options."""
    return {"question": row["Question"], "options": lettered_options((row[letter] for letter in "ABCD"), ".")}


def example(subject: str, row: dict[str, str]) -> str:
    """A solved question as the prompt shows it."""
    parts = asked(row)
    return (
        f"以下是关于{subject}的单项选择题，请直接给出正确答案的选项。\n题目：{parts['question']}\n{parts['options']}\n"
        f"答案是: {row['Answer']}\n\n"
    )
