from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tuneloop.core.files import read_lines
from tuneloop.tools.benchmark_items.user_folder import read_user_benchmark

SCRIPT = Path(__file__).parents[2] / "examples" / "own_task" / "make.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_task_make", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("own_task")
    script.make(made)
    return made


def test_the_benchmark_is_one_that_a_run_accepts(folder: Path) -> None:
    own = read_user_benchmark(folder / "benchmark")
    assert own.benchmark.answer == "number"
    assert (len(own.validation), len(own.test)) == (200, 400)
    assert set(own.validation[0].fields) == {"story", "question"}


def test_only_the_ledger_disagrees_with_the_other_sources(folder: Path) -> None:
    data = folder / "data"
    with (data / "ledger.csv").open(newline="") as f:
        ledger = {f"{row['entry']} {row['ask']}": row["result"] for row in csv.DictReader(f)}
    checked = {
        f"{row['item']['story']} {row['item']['question']}": row["review"]["final"]
        for row in read_lines(data / "checked.jsonl")
    }
    with (data / "drills.tsv").open(newline="") as f:
        drills = {row["text"]: row["number"] for row in csv.DictReader(f, delimiter="\t")}

    def agreement(a: dict[str, str], b: dict[str, str]) -> float:
        shared = a.keys() & b.keys()
        assert len(shared) == 300
        return sum(a[q] == b[q] for q in shared) / len(shared)

    assert agreement(checked, drills) == 1
    assert agreement(ledger, checked) < 0.7
    assert agreement(ledger, drills) < 0.7


def test_no_item_of_the_benchmark_is_in_the_data(folder: Path) -> None:
    own = read_user_benchmark(folder / "benchmark")
    data = "".join(path.read_text() for path in (folder / "data").iterdir())
    assert not [item for item in (*own.validation, *own.test) if item.fields["story"] in data]


def test_the_files_are_the_same_twice(script: ModuleType, folder: Path, tmp_path: Path) -> None:
    script.make(tmp_path)
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 6
    assert all((tmp_path / path).read_bytes() == (folder / path).read_bytes() for path in files)
