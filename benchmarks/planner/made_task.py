"""A task of the bench as files: its benchmark, its raw data, and the right answers that only its generator knows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tuneloop.core.files import write_atomic, write_lines

Rows = list[dict[str, Any]]
P = TypeVar("P")
VALIDATION, TEST, POOL = 200, 200, 7000
DECLARATION = """\
name: {name}
domain: math
description: {about}
answer: {answer}
metric: accuracy
direction: max
prompt: {prompt}
max_new_tokens: {longest}
"""


@dataclass(frozen=True)
class Made:
    """A task: its benchmark, its raw files, and the right answer of every question (`normalise`d), which nobody is told."""

    name: str
    declaration: str
    validation: Rows
    test: Rows
    files: Mapping[str, Rows]
    truth: Mapping[str, str]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both below `folder`, the same bytes every time; the benchmark's folder and the data set's."""
        benchmark, data = folder / self.name, folder / f"{self.name}-raw"
        write_atomic(benchmark / "benchmark.yaml", self.declaration)
        write_lines(benchmark / "validation.jsonl", self.validation)
        write_lines(benchmark / "test.jsonl", self.test)
        for name, rows in self.files.items():
            write_file(data / name, rows)
        return benchmark, data


def write_file(path: Path, rows: Rows) -> None:
    """Rows as the file's ending says."""
    if path.suffix == ".jsonl":
        write_lines(path, rows)
        return
    if path.suffix == ".json":
        write_atomic(path, json.dumps({"data": {"threads": rows}}))
        return
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), delimiter="," if path.suffix == ".csv" else "\t", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomic(path, text.getvalue())


def declare(name: str, about: str, answer: str, prompt: str, longest: int = 96) -> str:
    """`benchmark.yaml`; a reply may have `longest` tokens."""
    about, prompt = json.dumps(about), f'"{prompt}"'
    return DECLARATION.format(name=name, about=about, answer=answer, prompt=prompt, longest=longest)


def items(split: str, problems: Sequence[P], item: Callable[[str, P], dict[str, str]]) -> Rows:
    """Items of one split."""
    return [dict(item(f"{split}-{i:03}", p)) for i, p in enumerate(problems)]


def family(name: str) -> str:
    """`till12` → `till`."""
    return name.rstrip("0123456789")
