"""A batch starts what fits, goes on after a kill, and one run that fails harms none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL
from tests.waiting import until
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.core.settings import Settings
from tuneloop.tools.batch.comparison import compare_runs, comparison_csv, comparison_markdown
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.run import (
    ATTEMPTS,
    Batch,
    BatchFolder,
    TaskStatus,
    create_batch,
    drive_batch,
    open_batch,
    retry_failed,
    task_environment,
)
from tuneloop.tools.batch.tasks import BatchTask
from tuneloop.tools.llm_proxy.access import upstreams

REFUSED = {"benchmark": "nothing", "base_model": "tiny", "loop_n": 1}


def task(run_id: str, **more: Any) -> BatchTask:
    return BatchTask(run_id=run_id, benchmark="b", model="m", **{"options": REFUSED, **more})


def made(tmp_path: Path, *tasks: BatchTask, parallel: int = 1) -> BatchFolder:
    folder = BatchFolder(Home(tmp_path), "one")
    create_batch(folder, Batch(parallel=parallel, tasks=tasks), Devices({}))
    return folder


def test_refused_run_has_failed_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = made(tmp_path, task("r1"), task("r2"))
    with open_batch(folder, Devices({}), Settings()) as driver:
        seen: list[list[str]] = []
        found = drive_batch(driver, lambda now: seen.append([one.state for one in now]))
    assert [one.state for one in found] == ["failed", "failed"]
    assert all("benchmark 'nothing' is unknown" in one.reason for one in found)
    assert seen[0] == ["running", "waiting"], "one at a time"
    with open_batch(folder, Devices({}), Settings()) as driver:
        assert [one.state for one in map(driver.status, driver.batch.tasks)] == ["failed", "failed"], "also later"
        retry_failed(driver)
        assert [one.state for one in map(driver.status, driver.batch.tasks)] == ["waiting", "waiting"]


def test_finished_runs_are_not_started(tmp_path: Path) -> None:
    folder = made(tmp_path, task("r1"))
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    write_json(run.report_json, {})
    with open_batch(folder, Devices({}), Settings()) as driver:
        assert [one.state for one in drive_batch(driver, lambda _: None)] == ["finished"]
        assert driver.tried.started == {}


def test_run_that_never_ends_well_is_given_up(tmp_path: Path) -> None:
    folder = made(tmp_path, task("r1"))
    write_json(folder.attempts, {"started": {"r1": ATTEMPTS}})
    with open_batch(folder, Devices({}), Settings()) as driver:
        assert driver.step()[0].state == "failed"


def test_one_driver_and_one_name(tmp_path: Path) -> None:
    folder = made(tmp_path, task("r1"))
    with open_batch(folder, Devices({}), Settings()):
        second = open_batch(folder, Devices({}), Settings())
        with pytest.raises(InvalidRequestError, match="driven by another process"):
            second.__enter__()
    with pytest.raises(InvalidRequestError, match="batch 'one' exists"):
        made(tmp_path, task("r1"))
    with pytest.raises(InvalidRequestError, match="no batch 'other'; right is one of one"):
        BatchFolder(Home(tmp_path), "other").read()


def test_stop_pauses_what_works_and_starts_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path, task("r1"), task("r2"))
    write_json(folder.attempts, {"started": {"r1": 2, "r2": 1}})
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    with exclusive(run.lock), open_batch(folder, Devices({}), Settings()) as driver:
        folder.stop.touch()
        found = drive_batch(driver, lambda _: None)
        assert [one.state for one in found] == ["running", "waiting"]
        assert [read_json(file)["do"] for file in run.inbox.glob("*.json")] == ["pause"]
    assert read_json(folder.attempts)["started"] == {"r2": 1}, "a pause that was asked for is no failed start"
    with open_batch(folder, Devices({}), Settings()):
        assert not folder.stop.exists(), "it does not stop the next driver"


def test_run_that_is_starting_is_paused_when_it_holds_its_lock(tmp_path: Path) -> None:
    """Its process imports for seconds before it can be asked."""
    folder = made(tmp_path, task("r1"))
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    ended, alive = os.pipe()
    with open_batch(folder, Devices({}), Settings()) as driver, ThreadPoolExecutor(1) as pool:
        driver.ended["r1"] = ended
        stopped = pool.submit(driver.stop)
        time.sleep(0.3)
        assert not stopped.done()
        with exclusive(run.lock):
            stopped.result(30)
            assert len(list(run.inbox.glob("*.json"))) == 1
    os.close(alive)


def test_a_run_that_another_process_goes_on_with_is_at_work(tmp_path: Path) -> None:
    folder = made(tmp_path, task("r1"))
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    ended, alive = os.pipe()
    os.close(alive)  # the process that the batch has started is over
    with open_batch(folder, Devices({}), Settings()) as driver, exclusive(run.lock):
        driver.ended["r1"] = ended
        assert [one.state for one in driver.step()] == ["running"]
        assert [one.state for one in driver.step()] == ["running"]
        assert driver.tried.started == {}


def test_environment_of_a_run() -> None:
    assert task_environment(task("a", gpus=(2, 3)), (), Settings()) == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert task_environment(task("a"), (1,), Settings()) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert task_environment(task("a"), (), Settings()) == {}
    assert task_environment(task("a", gpus=0), (), Settings()) == {"CUDA_VISIBLE_DEVICES": ""}


KEYS: dict[str, Any] = {"OPENAI_API_KEY": "of-another", "FT_JUDGE_API_KEY": "judges", "TUNELOOP_EVAL_API_KEY": "evals"}


@pytest.mark.parametrize(
    ("own", "taken"),
    [
        ({}, set()),
        ({"OPENAI_API_BASE": "http://localhost:8000"}, set(KEYS)),
        ({"OPENAI_API_BASE": "http://localhost:8001/v1"}, set()),
        ({"OPENAI_API_BASE": "https://localhost:8000/v1"}, set()),
        ({"FT_JUDGE_API_BASE": "https://judge.example/v1"}, {"FT_JUDGE_API_KEY"}),
        ({"TUNELOOP_EVAL_API_BASE": "http://localhost:9/v1"}, {"TUNELOOP_EVAL_API_KEY"}),
    ],
    ids=str,
)
def test_a_port_gets_no_key_that_was_set_for_another_endpoint(own: dict[str, Any], taken: set[str]) -> None:
    env = task_environment(task("a", port=8000), (), Settings(**KEYS, **own))
    everything: dict[str, Any] = {**KEYS, **own, **env}
    now = Settings(**everything)
    assert now.api_base == "http://localhost:8000/v1"
    assert {name for name in KEYS if KEYS[name] == {**KEYS, **env}[name]} == taken
    sent = {one.key for one in upstreams(now).values() if "localhost:8000" in one.base}
    assert not sent & {KEYS[name] for name in KEYS.keys() - taken}


def report(base: float, best: float, *, delivered: bool = True) -> dict[str, Any]:
    score = {"n": 100, "low": 0, "high": 100}
    return {
        "baseline": {"test": {"value": base, **score}},
        "best": {"test": {"value": best, **score}, "delivered": delivered, "claimed": delivered},
        "claim": {"low": best - base - 1, "high": best - base + 1},
        "budget": {"experiments": 2, "seconds": 60.0, "spent": {"money": {"spent": 0.5}}},
    }


def test_comparison_has_means_and_failures(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for name, told in (("r1", report(10, 50)), ("r2", report(10, 60)), ("r3", report(40, 30, delivered=False))):
        home.run(name).root.mkdir(parents=True)
        write_json(home.run(name).report_json, told)
    other = {"options": {}, "scenario": "=cmd()"}
    found = [
        *(TaskStatus(task(name), "finished") for name in ("r1", "r2")),
        TaskStatus(task("r3", **other), "finished"),
        TaskStatus(task("r4", **other), "failed", "no | GPU"),
    ]
    two, mixed = compare_runs(home, found)
    assert (two.base, two.best, two.gain, two.claimed, two.cost) == (10, 55, 45, 2, 1.0)
    assert two.low == pytest.approx(45 - 12.7062 * 50**0.5 / 2**0.5, abs=0.01)
    assert (mixed.finished, mixed.runs, mixed.best, mixed.gain, mixed.low) == (1, 2, 40, 0, None), (
        "the base is delivered"
    )
    assert "| b | m | =cmd() | 1 of 2 | 40.0 | 40.0 | +0.0 |" in comparison_markdown([two, mixed])
    assert "- r4: no \\| GPU" in comparison_markdown([mixed])
    assert "'=cmd()" in comparison_csv([mixed])


@pytest.mark.slow
def test_killed_batch_goes_on(warm_home: Path) -> None:
    """Two whole runs; the batch is killed while both work."""
    env = {**os.environ, **SMALL, "FT_FILE_PATH": str(warm_home)}
    tasks = {
        "tasks": [{"model": "tiny", "benchmark": "wordproblems", "loop_n": 1}],
        "scenarios": {"a": {"seed": 1}, "b": {"seed": 2}},
    }
    write_json(warm_home.parent / "tasks.json", tasks)
    words = (sys.executable, "-m", "tuneloop.cli.main", "batch")
    first = subprocess.Popen([*words, "tasks.json", "--parallel", "2", "--name", "b"], env=env, cwd=warm_home.parent)
    runs = [Home(warm_home).run(f"b-{n}-wordproblems-tiny-{name}") for n, name in ((1, "a"), (2, "b"))]
    until(lambda: all((run.baseline / "scores.json").is_file() for run in runs) or None, 300)
    first.kill()
    first.wait()
    began = time.monotonic()
    done = subprocess.run(
        [*words, "resume"], env=env, cwd=warm_home.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert time.monotonic() - began > 1
    cells = read_json(warm_home / "batches" / "b" / "comparison.json")
    assert [(cell["scenario"], cell["finished"]) for cell in cells] == [("a", 1), ("b", 1)]
    assert all(cell["gain"] > 20 for cell in cells)
    assert read_json(warm_home / "batches" / "b" / "attempts.json")["started"] == {run.id: 1 for run in runs}
    assert (warm_home / "batches" / "b" / "comparison.md").read_text() == done.stdout
