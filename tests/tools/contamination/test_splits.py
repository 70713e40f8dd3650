"""Several benchmarks in one run: none shows what another's sealed test asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuneloop.core.errors import SetupError
from tuneloop.core.files import write_lines
from tuneloop.core.layout import Home
from tuneloop.tools.benchmarks import BenchmarkFolder, resolve
from tuneloop.tools.contamination.splits import check_apart


def made(root: Path, name: str, validation: range, test: range) -> BenchmarkFolder:
    place = root / name
    for split, numbers in (("validation", validation), ("test", test)):
        rows = [{"prompt": f"Anna has {n} pears and eats {n % 7}. How many are left?", "answer": n} for n in numbers]
        write_lines(place / f"{split}.jsonl", rows)
    (place / "benchmark.yaml").write_text(f"name: {name}\ndescription: d\nanswer: number\n")
    return resolve(str(place), Home(root / "home"), None)


def test_a_validation_item_in_anothers_sealed_test_is_refused(tmp_path: Path) -> None:
    one, two = (
        made(tmp_path, "one", range(10, 40), range(50, 80)),
        made(tmp_path, "two", range(100, 130), range(30, 50)),
    )
    with pytest.raises(SetupError, match="benchmarks one and two: 10 validation items of the first"):
        check_apart([one, two])
    check_apart([one])


def test_the_same_split_twice_and_sets_of_their_own_are_right(tmp_path: Path) -> None:
    one = made(tmp_path, "one", range(10, 40), range(50, 80))
    again = replace(one, benchmark=one.benchmark.model_copy(update={"name": "again"}))
    check_apart([one, again, made(tmp_path, "two", range(100, 130), range(140, 160))])
