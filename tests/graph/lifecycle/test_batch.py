"""Batches from Python: what the command line does, without files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tuneloop
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings

TASK = {"model": "tiny", "benchmark": "wordproblems", "loop_n": 1}


def finished(home: Home, name: str) -> None:
    """As a run leaves it that has come to its end."""
    score = {"value": 50.0, "low": 40.0, "high": 60.0, "n": 100}
    told: dict[str, Any] = {
        "baseline": {"test": {**score, "value": 20.0}},
        "best": {"test": score, "delivered": True, "claimed": True},
        "claim": {"low": 21.0, "high": 39.0},
        "budget": {"experiments": 1, "seconds": 60.0, "spent": {"money": {"spent": 0.0}}},
    }
    home.run(name).root.mkdir(parents=True)
    write_json(home.run(name).report_json, told)


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
        (Path("missing.json"), "missing.json: cannot be read"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(tmp_path: Path, tasks: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError) as e:
        tuneloop.run_batch(tasks, settings=Settings(FT_FILE_PATH=tmp_path / "home"))
    assert said in str(e.value)
    assert not (tmp_path / "home").exists()
