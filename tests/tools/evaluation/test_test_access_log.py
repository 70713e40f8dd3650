"""Openings of a sealed test are counted: once for each run, also for `eval`, whatever words stand around the items."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import DamagedFileError
from tuneloop.core.files import read_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import RunSpec, Setup
from tuneloop.core.settings import Settings
from tuneloop.tools.evaluation.test_access_log import (
    access_number,
    has_test_access,
    log_external_access,
    log_test_access,
    was_measured_before,
)
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.signature import write_setup


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def bench(home: Home, name: str, **setup: str) -> RunTools:
    """A prepared run; `setup` replaces what it stands on."""
    spec = RunSpec(benchmark="wordproblems", base_model="tiny")
    run = prepared(home.run(name), spec, wordproblems(home), home.root)
    told = read_json(run.setup)
    told["benchmark"] |= setup
    write_setup(run, Setup.model_validate(told))
    return RunTools(run, Settings(FT_FILE_PATH=home.root))


def test_reading_resumed_after_a_kill_is_the_same_opening(home: Home) -> None:
    first = bench(home, "first")
    for _ in range(3):
        log_test_access(first)
    assert access_number(first) == 1
    second = bench(home, "second")
    log_test_access(second)
    log_test_access(first)
    assert (access_number(first), access_number(second)) == (1, 2)


def test_another_description_makes_no_new_test(home: Home) -> None:
    first, other = bench(home, "first"), bench(home, "other", description="the same items in other words")
    log_test_access(first)
    log_test_access(other)
    assert access_number(other) == 2


def test_eval_on_the_test_split_counts(home: Home) -> None:
    for _ in range(2):  # within one second
        log_external_access(home, [wordproblems(home)], "eval 7 of 2026-01-01")
    later = bench(home, "later")
    log_test_access(later)
    assert access_number(later) == 3


def test_new_run_of_an_old_name_opens_the_test_anew(home: Home) -> None:
    """The old one was removed; the machine has seen this test once all the same."""
    first = bench(home, "same")
    log_test_access(first)
    shutil.rmtree(first.run.root)
    again = bench(home, "same")
    log_test_access(again)
    log_test_access(again)
    assert access_number(again) == 2


def test_measuring_a_runs_model_on_a_test_is_an_opening_of_the_run(home: Home) -> None:
    """Who goes on with it, or reads its report, may know the result."""
    first, folder = bench(home, "first"), wordproblems(home)
    assert not was_measured_before(home, first.run)
    log_external_access(home, [folder], "eval somebody 20260101-000000")
    assert not has_test_access(home, ("first",))
    log_external_access(home, [folder], "eval model 20260101-000000", "first")
    assert has_test_access(home, ("first",))
    assert was_measured_before(home, first.run)
    log_test_access(first)
    assert access_number(first) == 3
    assert not was_measured_before(home, bench(home, "second").run)


def test_only_runs_that_were_named_have_read(home: Home) -> None:
    assert not has_test_access(home, ("first",)), "nobody has read anything"
    log_test_access(bench(home, "first"))
    assert has_test_access(home, ("first",))
    assert has_test_access(home, ("parent", "first"))
    assert not has_test_access(home, ("parent",))
    assert not has_test_access(home, ())


@pytest.mark.parametrize("line", ['"text"', "[]", "7", "{}", '{"test": "t", "run": ["done"]}', '{"run": "done"}'])
def test_a_damaged_ledger_proves_nothing(home: Home, line: str) -> None:
    log_external_access(home, [wordproblems(home)], "eval 7 of 2026-01-01")
    with (home.benchmarks / "reads.jsonl").open("a") as f:
        f.write(line + "\n")
    for use in (
        lambda: has_test_access(home, ["done"]),
        lambda: was_measured_before(home, home.run("done")),
        lambda: log_external_access(home, [wordproblems(home)], "eval 8 of 2026-01-01"),
    ):
        with pytest.raises(DamagedFileError, match=r"reads\.jsonl is damaged"):
            use()
