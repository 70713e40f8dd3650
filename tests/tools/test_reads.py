"""Openings of a sealed test are counted: once for each run, also for `eval`, whatever words stand around the items."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.prepared import prepared
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmarks import resolve
from tuneloop.tools.reads import has_read, measured_before, note_read, note_reading, opening
from tuneloop.tools.workbench import Workbench


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def bench(home: Home, name: str, **setup: str) -> Workbench:
    """A prepared run; `setup` replaces what it stands on."""
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", sandbox="process")
    run = prepared(home.run(name), spec, resolve("wordproblems", home, None), home.root)
    told = read_json(run.setup)
    told["benchmark"] |= setup
    write_json(run.setup, told)
    return Workbench(run, Settings(FT_FILE_PATH=home.root))


def test_reading_resumed_after_a_kill_is_the_same_opening(home: Home) -> None:
    first = bench(home, "first")
    for _ in range(3):
        note_read(first)
    assert opening(first) == 1
    second = bench(home, "second")
    note_read(second)
    note_read(first)
    assert (opening(first), opening(second)) == (1, 2)


def test_another_description_makes_no_new_test(home: Home) -> None:
    first, other = bench(home, "first"), bench(home, "other", description="the same items in other words")
    note_read(first)
    note_read(other)
    assert opening(other) == 2


def test_eval_on_the_test_split_counts(home: Home) -> None:
    note_reading(home, [resolve("wordproblems", home, None)], "eval 7 of 2026-01-01")
    later = bench(home, "later")
    note_read(later)
    assert opening(later) == 2


def test_new_run_of_an_old_name_opens_the_test_anew(home: Home) -> None:
    """The old one was removed; the machine has seen this test once all the same."""
    first = bench(home, "same")
    note_read(first)
    shutil.rmtree(first.run.root)
    again = bench(home, "same")
    note_read(again)
    note_read(again)
    assert opening(again) == 2


def test_measuring_a_runs_model_on_a_test_is_an_opening_of_the_run(home: Home) -> None:
    """Who goes on with it, or reads its report, may know the result."""
    first, folder = bench(home, "first"), resolve("wordproblems", home, None)
    assert not measured_before(home, first.run)
    note_reading(home, [folder], "eval somebody 20260101-000000")
    assert not has_read(home, ("first",))
    note_reading(home, [folder], "eval model 20260101-000000", "first")
    assert has_read(home, ("first",))
    assert measured_before(home, first.run)
    note_read(first)
    assert opening(first) == 3
    assert not measured_before(home, bench(home, "second").run)


def test_only_runs_that_were_named_have_read(home: Home) -> None:
    assert not has_read(home, ("first",)), "nobody has read anything"
    note_read(bench(home, "first"))
    assert has_read(home, ("first",))
    assert has_read(home, ("parent", "first"))
    assert not has_read(home, ("parent",))
    assert not has_read(home, ())
