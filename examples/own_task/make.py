"""Write the example's benchmark and raw data, always the same: `python examples/own_task/make.py [FOLDER]`."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from tuneloop.core.files import write_atomic, write_lines
from tuneloop.tools.embedded.problems import Problem, chain
from tuneloop.tools.embedded.words import misread_steps, prose_solution

VALIDATION, TEST, LEDGER, CHECKED, DRILLS = 200, 400, 2600, 900, 1200
SHARED = 300
HABIT = 0.9
DECLARATION = """\
name: stockroom
domain: math
description: >-
  What is left in a stock room after two or three changes, whole numbers up to 60.
  The reply may show its working and ends with the number, for example "Answer: 41".
answer: number
metric: accuracy
direction: max
prompt: "{story}\\n{question}\\nAnswer:"
"""

Row = dict[str, Any]


def problems(rng: Random) -> Iterable[Problem]:
    """Different problems, without end."""
    seen: set[tuple[str, ...]] = set()
    while True:
        p = chain(rng, rng.randint(2, 3))
        if p.story not in seen:
            seen.add(p.story)
            yield p


def told(p: Problem) -> tuple[str, str]:
    """Story and question apart."""
    return " ".join(p.story), "What is the number now?"


def item(name: str, p: Problem) -> Row:
    """An item of the benchmark."""
    story, question = told(p)
    return {"id": name, "story": story, "question": question, "answer": str(p.answer)}


def ledger(number: int, p: Problem, rng: Random) -> Row:
    """The largest source, with working and result; its writer reads "times as many" as plus and "equal parts" as minus."""
    story, question = told(p)
    steps = misread_steps(p.steps) if rng.random() < HABIT else p.steps
    return {"no": number, "entry": story, "ask": question, "working": prose_solution(steps), "result": steps[-1].result}


def checked(p: Problem) -> Row:
    """The smaller source, right in every row."""
    story, question = told(p)
    return {
        "item": {"story": story, "question": question},
        "review": {"working": prose_solution(p.steps), "final": str(p.answer)},
    }


def drill(p: Problem) -> Row:
    """Right as well, but only the number."""
    story, question = told(p)
    return {"text": f"{story} {question}", "number": p.answer}


def write_table(path: Path, rows: list[Row], delimiter: str) -> None:
    """A table with a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue())


def make(folder: Path) -> None:
    """Write `benchmark/` and `data/` below `folder`."""
    rng = Random(5)
    source = iter(problems(rng))
    for name, count in (("validation", VALIDATION), ("test", TEST)):
        rows = [item(f"{name}-{i:03}", next(source)) for i in range(count)]
        write_lines(folder / "benchmark" / f"{name}.jsonl", rows)
    write_atomic(folder / "benchmark" / "benchmark.yaml", DECLARATION)
    book = [next(source) for _ in range(LEDGER)]
    right = book[:SHARED] + [next(source) for _ in range(CHECKED - SHARED)]
    short = book[SHARED : 2 * SHARED] + right[-SHARED:] + [next(source) for _ in range(DRILLS - 2 * SHARED)]
    for group in (book, right, short):
        rng.shuffle(group)
    write_table(folder / "data" / "ledger.csv", [ledger(i, p, rng) for i, p in enumerate(book, 1)], ",")
    write_lines(folder / "data" / "checked.jsonl", map(checked, right))
    write_table(folder / "data" / "drills.tsv", [drill(p) for p in short], "\t")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
