"""Batches from Python: what the command line does, without files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tuneloop
from tests.tools.batch.made import TASK, finished
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.batch import make_batch
from tuneloop.tools.batch.tasks import read_document
from tuneloop.tools.runs.manifest import write_manifest


def test_a_batch_that_is_there_goes_on_and_is_compared(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    scenarios = {"few": {"upper_data_size_limit": 500}, "many": {"upper_data_size_limit": 900}}
    for name in ("mine-1-wordproblems-tiny-few", "mine-2-wordproblems-tiny-many"):
        finished(settings.home, name)
    for _ in range(2):  # the second call starts no run anew
        cells = tuneloop.run_batch([TASK], scenarios, settings, name="mine")
        assert [(cell.scenario, cell.base, cell.best, cell.gain) for cell in cells] == [
            ("few", 20.0, 50.0, 30.0),
            ("many", 20.0, 50.0, 30.0),
        ]
    folder = tmp_path / "batches" / "mine"
    assert (folder / "comparison.md").is_file()
    assert len(read_json(folder / "batch.json")["tasks"]) == 2
    assert not (folder / "attempts.json").exists(), "nothing was started"


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([{**TASK, "loopn": 1}], "tasks[0]['loopn']: no field 'loopn': did you mean 'loop_n'?"),
        ([TASK, TASK], "tasks[1]: the same task as tasks[0]"),
        ([], "no tasks; right is"),
        ({"task": [TASK]}, "no field 'task'"),
        ([{**TASK, "dataset": "nowhere"}], "nowhere"),
        (Path("missing.json"), "missing.json: cannot be read"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(tmp_path: Path, tasks: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError) as e:
        tuneloop.run_batch(tasks, settings=Settings(FT_FILE_PATH=tmp_path / "home"))
    assert said in str(e.value)
    assert not (tmp_path / "home").exists()


def test_a_run_of_somebody_else_is_not_taken_for_one_of_the_batch(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    write_manifest(settings.home.run("mine-1-wordproblems-tiny"), RunSpec(benchmark="wordproblems", base_model="tiny"))
    with pytest.raises(InvalidRequestError, match="run 'mine-1-wordproblems-tiny' exists and is not of batch mine"):
        tuneloop.run_batch([TASK], settings=settings, name="mine")
    assert not (tmp_path / "batches" / "mine" / "batch.json").exists()


def test_names_leave_room_for_those_of_the_runs(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    with pytest.raises(InvalidRequestError, match="60 characters at most"):
        tuneloop.run_batch([TASK], settings=settings, name="n" * 61)
    file = tmp_path / f"{'long' * 20}.json"
    write_json(file, [TASK, {**TASK, "seed": 2}])
    one, other = make_batch(read_document(file), None, settings).read().tasks
    assert one.run_id != other.run_id and len(other.run_id) <= 80
