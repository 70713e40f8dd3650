"""Batches for a caller: the same asked twice is one, paths are confined, what is refused leaves nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.tools.batch.made import TASK, finished
from tests.waiting import until
from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.core.settings import Settings
from tuneloop.tools.batch.background import batch_facts, resume_batch, start_batch, stop_batch
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.run import Batch, BatchFolder, create_batch, drive_batch, open_batch
from tuneloop.tools.batch.tasks import BatchTask
from tuneloop.tools.runs.request import OpenFolders

RUNS = ("mine-1-wordproblems-tiny-few", "mine-2-wordproblems-tiny-many")
ASKED: dict[str, Any] = {
    "tasks": [TASK],
    "scenarios": {"few": {"upper_data_size_limit": 500}, "many": {"upper_data_size_limit": 900}},
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Settings()


def start(settings: Settings, asked: dict[str, Any], parallel: int | None = None, name: str = "mine") -> BatchFolder:
    return start_batch(settings, OpenFolders(settings.home), name, asked, parallel)


def made(home: Home, *names: str) -> BatchFolder:
    folder = BatchFolder(home, "one")
    tasks = tuple(BatchTask(run_id=name, benchmark="b", model="m", options={}) for name in names)
    create_batch(folder, Batch(parallel=2, tasks=tasks), Devices({}))
    return folder


def test_the_same_asked_again_is_one_batch(settings: Settings) -> None:
    for name in RUNS:
        finished(settings.home, name)
    with ThreadPoolExecutor(2) as pool:
        twice = [pool.submit(start, settings, ASKED) for _ in range(2)]
        assert {one.result().id for one in twice} == {"mine"}
    folder = start(settings, ASKED)
    assert read_json(folder.root / "tasks.json") == ASKED
    until(lambda: batch_facts(folder, settings, 50)["state"] == "over", 60)
    facts = batch_facts(folder, settings, 1, 1)
    assert (facts["runs_by_state"], facts["runs_in_all"], facts["rows_in_all"]) == ({"finished": 2}, 2, 2)
    assert [one["run"] for one in facts["runs"]] == [RUNS[1]]
    assert [(cell["scenario"], cell["gain"]) for cell in facts["comparison"]] == [("many", 30.0)]
    for other, parallel in (({"tasks": [TASK]}, None), (ASKED, 7)):
        with pytest.raises(ToolError, match="was asked otherwise"):
            start(settings, other, parallel)
    with pytest.raises(ToolError, match="is over, all its runs are finished"):
        resume_batch(folder, settings)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tasks": [{**TASK, "loopn": 1}]}, r"request\['tasks'\]\[0\]\['loopn'\]: no field 'loopn'"),
        ({"tasks": [{**TASK, "sandbox": "process"}]}, "it holds for all runs"),
        ({"tasks": [{**TASK, "approve": "plan"}]}, "a batch asks nobody"),
        ({"tasks": [TASK], "defaults": {"port": 8000}}, "named by this machine's settings alone"),
        ({"tasks": [{**TASK, "model": "/etc"}]}, "'/etc' is not open to you"),
        ({"tasks": [{**TASK, "benchmark": "wordproblems,/etc"}]}, "'/etc' is not open to you"),
        ({"tasks": [TASK], "scenarios": {"a": {"dataset": ["/etc"]}}}, "'/etc' is not open to you"),
        ({"tasks": [{**TASK, "max_regression": ["/etc:-2"]}]}, "'/etc' is not open to you"),
        ({"tasks": [{**TASK, "model": "../home/benchmarks"}]}, "is not open to you"),
        ({"tasks": [{**TASK, "benchmark": "nonsense"}]}, "nonsense"),
        ({"tasks": [{**TASK, "name": float("nan")}]}, "finite numbers"),
        ({"tasks": [{**TASK, "x" * 5000: 1}]}, "no field 'x{60}'"),
        ({"tasks": [TASK], "scenarios": {"\x1b[2J": {}}}, "printable characters"),
        ({"tasks": [TASK], "scenarios": {"": {}}}, "printable characters"),
        ({"tasks": [{**TASK, "benchmark_description": "x" * (1 << 20)}]}, "more than 1 MiB"),
    ],
)
def test_what_is_wrong_is_said_and_leaves_nothing(settings: Settings, asked: dict[str, Any], said: str) -> None:
    with pytest.raises((ToolError, InvalidRequestError), match=said):
        start(settings, asked)
    assert not (settings.home.root / "batches").exists()


def test_refusal_of_the_command_line_leaves_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A price that is not known is seen there alone."""
    monkeypatch.setenv("CHAT_MODEL", "openai:unheard-of")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(ToolError, match="max-cost"):
        start(settings, {"tasks": [{**TASK, "max_cost": 1}]})
    assert not (settings.home.root / "batches" / "mine").exists()


def test_data_that_the_owner_named_need_not_be_open(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "raw.jsonl").write_text('{"a": 1}\n')
    own = Settings(FT_DATASET=str(tmp_path / "raw.jsonl"))
    finished(settings.home, "mine-1-wordproblems-tiny")
    with pytest.raises(ToolError, match=r"raw.jsonl' is not open to you"):
        start(settings, {"tasks": [{**TASK, "dataset": str(tmp_path / "raw.jsonl")}]})
    assert start(own, {"tasks": [TASK]}).batch.is_file()


def test_stop_reaches_the_driver_and_its_runs(settings: Settings) -> None:
    folder = made(settings.home, "r1", "r2")
    run = settings.home.run("r1")
    run.root.mkdir(parents=True)

    def drive() -> None:
        with open_batch(folder, Devices({}), settings) as driver:
            write_json(folder.attempts, {"failed": {"r2": "was refused"}})
            driver.tried.failed["r2"] = "was refused"
            drive_batch(driver, lambda _: None)

    with exclusive(run.lock), ThreadPoolExecutor(1) as pool:
        driven = pool.submit(drive)
        until(lambda: batch_facts(folder, settings, 1)["state"] == "running", 30)
        assert stop_batch(folder, settings)
        driven.result(30)
        assert batch_facts(folder, settings, 1)["state"] == "stopped"
        assert len(list(run.inbox.glob("*.json"))) == 1
        assert stop_batch(folder, settings), "its driver is gone, a run of it works"
    with pytest.raises(InvalidRequestError, match="nothing to stop"):
        stop_batch(folder, settings)
