"""How often a test split has been read on this machine: noted before the reading, shown in every report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from tuneloop.core.files import read_lines, write_lines
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.tools.benchmarks import BenchmarkFolder
from tuneloop.tools.workbench import Workbench


def _ledger(bench: Workbench) -> Path:
    return bench.settings.home.benchmarks / "reads.jsonl"


def _rows(bench: Workbench) -> list[dict[str, Any]]:
    file = _ledger(bench)
    return list(read_lines(file)) if file.is_file() else []


def note_read(bench: Workbench) -> None:
    """Note this run's reading; a reading that goes on after a crash is the same one."""
    read = [{"test": folder.test_split, "run": bench.run.id} for folder in bench.benchmarks]
    with exclusive(_ledger(bench).with_suffix(".lock")):
        rows = _rows(bench)
        if fresh := [row for row in read if row not in rows]:
            write_lines(_ledger(bench), [*rows, *fresh])


def note_reading(home: Home, folders: Iterable[BenchmarkFolder], reader: str) -> None:
    """Note that somebody other than a run is about to read these test splits; `reader` says who and when."""
    file = home.benchmarks / "reads.jsonl"
    with exclusive(file.with_suffix(".lock")):
        rows = list(read_lines(file)) if file.is_file() else []
        write_lines(file, [*rows, *({"test": folder.test_split, "run": reader} for folder in folders)])


def has_read(bench: Workbench, runs: Collection[str]) -> bool:
    """Whether one of these runs has read this very test split."""
    split = bench.benchmark.test_split
    return any(row["test"] == split and row["run"] in runs for row in _rows(bench))


def count_reads(bench: Workbench) -> int:
    """Runs that have read this very test split, this one included."""
    split = bench.benchmark.test_split
    return sum(row["test"] == split for row in _rows(bench))
