"""Openings of sealed tests on this machine: each is noted before the reading and told in every report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from pydantic import BaseModel

from tuneloop.core.files import checked, read_lines, write_lines
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.manifest import created_at


def _ledger(home: Home) -> Path:
    return home.benchmarks / "reads.jsonl"


class Opening(BaseModel):
    """A line of the ledger. `run`: who read the split `test`; `created`: when that run began; `of`: the run whose model it was."""

    test: str
    run: str
    created: str | None = None
    of: str | None = None

    @property
    def row(self) -> dict[str, str]:
        """As it is stored."""
        return self.model_dump(exclude_none=True)


def _openings(home: Home) -> list[Opening]:
    """Raises DamagedFileError: a ledger that cannot be read proves that nothing was opened to nobody."""
    file = _ledger(home)
    return [checked(file, row, Opening) for row in read_lines(file)] if file.is_file() else []


def _add_openings(home: Home, fresh: list[Opening], *, once: bool) -> None:
    """Append to the ledger; `once`: those that it does not hold yet."""
    file = _ledger(home)
    with exclusive(file.with_suffix(".lock")):
        known = _openings(home)
        if new := [opening for opening in fresh if not (once and opening in known)]:
            write_lines(file, [opening.row for opening in (*known, *new)])


def log_test_access(run_tools: RunTools) -> None:
    """Note this run's reading; a reading that goes on after a crash is the same one."""
    run, created = run_tools.run.id, created_at(run_tools.run)
    read = [Opening(test=folder.test_split, run=run, created=created) for folder in run_tools.benchmarks]
    _add_openings(run_tools.settings.home, read, once=True)


def log_external_access(home: Home, folders: Iterable[BenchmarkFolder], reader: str, run: str = "") -> None:
    """Note that somebody other than a run is about to read these test splits; `reader` says who and when.

    Every call counts, also two within one second.
    `run`: the run whose model is measured: who goes on with it knows its result.
    """
    _add_openings(home, [Opening(test=folder.test_split, run=reader, of=run) for folder in folders], once=False)


def openings_of(home: Home, runs: Collection[str]) -> list[Opening]:
    """By these runs, and of their models."""
    return [opening for opening in _openings(home) if opening.run in runs or opening.of in runs]


def note_openings(home: Home, openings: list[Opening]) -> None:
    """Those of a run that came from another machine."""
    _add_openings(home, openings, once=True)


def has_test_access(home: Home, runs: Collection[str]) -> bool:
    """Whether one of these runs has opened its sealed test, or a model of it was measured on one."""
    return bool(openings_of(home, runs))


def was_measured_before(home: Home, run: RunFolder) -> bool:
    """Whether a model of the run was measured on a sealed test before the run's own opening."""
    return any(opening.of == run.id for opening in _openings(home))


def access_number(run_tools: RunTools) -> int:
    """Which opening of this very test split the run's own is, counted from 1."""
    split, own = run_tools.benchmark.test_split, (run_tools.run.id, created_at(run_tools.run))
    readers = [
        (opening.run, opening.created) for opening in _openings(run_tools.settings.home) if opening.test == split
    ]
    return readers.index(own) + 1
