"""Checkpoints of a run whose folder lies on a network: without shared memory there, or on a local disk with copies."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.graph.checkpoints.test_store import stored, work
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.state_folder import VARIABLE
from tuneloop.graph.checkpoints.store import RunCheckpoints, open_checkpoints


@pytest.fixture
def run(network_home: Path) -> RunFolder:
    folder = RunFolder(network_home / "runs" / "r 1'\"ü#?%")
    folder.root.mkdir(parents=True)
    return folder


def experiments(store: RunCheckpoints) -> int:
    values = store.values()
    assert values is not None
    return int(values["experiment"])


def test_a_checkpoint_needs_no_shared_memory(run: RunFolder) -> None:
    with open_checkpoints(run, None) as store:
        work(store, 3, shrink=2)
        assert [file.name for file in run.root.glob("checkpoint.sqlite-*")] == []
    with open_checkpoints(run, None) as store:
        assert (store.lost, experiments(store)) == ("", 3)


def test_a_file_that_was_in_wal_elsewhere_is_read(run: RunFolder, tmp_path: Path) -> None:
    local = RunFolder(tmp_path / "runs" / run.id)
    local.root.mkdir(parents=True)
    with open_checkpoints(local, None) as store:
        work(store, 4)
        for file in local.root.glob("checkpoint.sqlite*"):  # as a crash leaves it
            shutil.copyfile(file, run.root / file.name)
    with open_checkpoints(run, None) as store:
        assert (store.lost, experiments(store)) == ("", 4)


def test_with_a_state_folder_the_run_gets_whole_copies(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    with open_checkpoints(run, None) as store:
        work(store, 2)
        assert not run.checkpoint.exists(), "it is worked on where it is fast"
        store.shrink()
        store.publish()
        with closing(sqlite3.connect(f"{run.checkpoint.as_uri()}?immutable=1", uri=True)) as copy:
            assert copy.execute("select count(*) from checkpoints").fetchone() == (1,)
    assert read_json(run.stores)[-1].startswith("sqlite on ")
    with open_checkpoints(run, None) as store:
        assert (store.lost, experiments(store)) == ("", 2)


def test_a_run_goes_on_from_its_copy_on_another_machine_and_back(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine, rounds in (("a", 2), ("b", 5), ("a", 7)):
        monkeypatch.setenv(VARIABLE, str(tmp_path / machine))
        with open_checkpoints(run, None) as store:
            assert rounds == 2 or experiments(store) < rounds
            before = experiments(store) if rounds > 2 else 0
            assert before == {2: 0, 5: 2, 7: 5}[rounds]
            work(store, rounds)
    monkeypatch.delenv(VARIABLE)
    with open_checkpoints(run, None) as store:
        assert (store.lost, experiments(store)) == ("", 7)


def test_another_run_of_the_same_name_does_not_find_it(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    stored(run)
    shutil.rmtree(run.root)
    run.root.mkdir()
    with open_checkpoints(run, None) as store:
        assert store.values() is None
