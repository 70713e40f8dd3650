"""Openings of sealed tests on this machine: each is noted before the reading and told in every report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from tuneloop.core.files import read_lines, write_lines
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.manifest import created_at


def _ledger(home: Home) -> Path:
    return home.benchmarks / "reads.jsonl"


def _rows(home: Home) -> list[dict[str, Any]]:
    file = _ledger(home)
    return list(read_lines(file)) if file.is_file() else []


def log_test_access(run_tools: RunTools) -> None:
    """Note this run's reading; a reading that goes on after a crash is the same one."""
    read = [
        {"test": folder.test_split, "run": run_tools.run.id, "created": created_at(run_tools.run)}
        for folder in run_tools.benchmarks
    ]
    file = _ledger(run_tools.settings.home)
    with exclusive(file.with_suffix(".lock")):
        rows = _rows(run_tools.settings.home)
        if fresh := [row for row in read if row not in rows]:
            write_lines(file, [*rows, *fresh])


def log_external_access(home: Home, folders: Iterable[BenchmarkFolder], reader: str, run: str = "") -> None:
    """Note that somebody other than a run is about to read these test splits; `reader` says who and when.

    `run`: the run whose model is measured: who goes on with it knows its result.
    """
    file = _ledger(home)
    with exclusive(file.with_suffix(".lock")):
        rows = _rows(home)
        write_lines(file, [*rows, *({"test": folder.test_split, "run": reader, "of": run} for folder in folders)])


def has_test_access(home: Home, runs: Collection[str]) -> bool:
    """Whether one of these runs has opened its sealed test, or a model of it was measured on one."""
    return any(row["run"] in runs or row.get("of") in runs for row in _rows(home))


def was_measured_before(home: Home, run: RunFolder) -> bool:
    """Whether a model of the run was measured on a sealed test before the run's own opening."""
    return any(row.get("of") == run.id for row in _rows(home))


def access_number(run_tools: RunTools) -> int:
    """Which opening of this very test split the run's own is, counted from 1."""
    split, own = run_tools.benchmark.test_split, (run_tools.run.id, created_at(run_tools.run))
    readers = [(row["run"], row.get("created")) for row in _rows(run_tools.settings.home) if row["test"] == split]
    return readers.index(own) + 1
