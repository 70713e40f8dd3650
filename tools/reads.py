"""Openings of sealed tests on this machine: each is noted before the reading and told in every report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from tuneloop.core.files import read_lines, write_lines
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.tools.benchmarks import BenchmarkFolder
from tuneloop.tools.runs.manifest import created
from tuneloop.tools.workbench import Workbench


def _ledger(home: Home) -> Path:
    return home.benchmarks / "reads.jsonl"


def _rows(home: Home) -> list[dict[str, Any]]:
    file = _ledger(home)
    return list(read_lines(file)) if file.is_file() else []


def note_read(bench: Workbench) -> None:
    """Note this run's reading; a reading that goes on after a crash is the same one."""
    read = [
        {"test": folder.test_split, "run": bench.run.id, "created": created(bench.run)} for folder in bench.benchmarks
    ]
    file = _ledger(bench.settings.home)
    with exclusive(file.with_suffix(".lock")):
        rows = _rows(bench.settings.home)
        if fresh := [row for row in read if row not in rows]:
            write_lines(file, [*rows, *fresh])


def note_reading(home: Home, folders: Iterable[BenchmarkFolder], reader: str, run: str = "") -> None:
    """Note that somebody other than a run is about to read these test splits; `reader` says who and when.

    `run`: the run whose model is measured: who goes on with it knows its result.
    """
    file = _ledger(home)
    with exclusive(file.with_suffix(".lock")):
        rows = _rows(home)
        write_lines(file, [*rows, *({"test": folder.test_split, "run": reader, "of": run} for folder in folders)])


def has_read(home: Home, runs: Collection[str]) -> bool:
    """Whether one of these runs has opened its sealed test, or a model of it was measured on one."""
    return any(row["run"] in runs or row.get("of") in runs for row in _rows(home))


def measured_before(home: Home, run: RunFolder) -> bool:
    """Whether a model of the run was measured on a sealed test before the run's own opening."""
    return any(row.get("of") == run.id for row in _rows(home))


def opening(bench: Workbench) -> int:
    """Which opening of this very test split the run's own is, counted from 1."""
    split, own = bench.benchmark.test_split, (bench.run.id, created(bench.run))
    readers = [(row["run"], row.get("created")) for row in _rows(bench.settings.home) if row["test"] == split]
    return readers.index(own) + 1
