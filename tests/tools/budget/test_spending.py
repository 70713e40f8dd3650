"""What a run has spent is read from what is booked anyway: ledger, jobs' folders, events."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.event_log import append
from tuneloop.core.events import JobProgress, NodeFinished, NodeInterrupted, NodeStarted, RunPaused
from tuneloop.core.files import write_json
from tuneloop.core.job import ALIVE, CLAIM, TICKET
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import try_lock
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.budget import spending
from tuneloop.tools.budget.spending import gpu_hours, run_spending, seconds_worked, spending_by_requester
from tuneloop.tools.llm_proxy.ledger import Entry, Ledger, new_id
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.status import run_status, status_facts


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = Home(tmp_path).run("r")
    write_manifest(made, RunSpec(benchmark="b", base_model="m", max_tokens=1000, max_cost=5, max_gpu_hours=8))
    write_json(made.setup, {"device": "cuda"})
    return made


def entry(**more: Any) -> Entry:
    given = {"id": new_id(), "at": 1.0, "job": "agent:critic", "model": "m", "endpoint": "e", "outcome": "answered"}
    return Entry.model_validate({**given, "status": 200, "tokens_in": 100, "tokens_out": 20, "cost": 0.5, **more})


def job(run: RunFolder, place: Path, name: str, seconds: float | None, **command: Any) -> Path:
    folder = place / "jobs" / name
    write_json(folder / "command.json", {"env": {}, "generated": False, **command})
    if seconds is not None:
        write_json(folder / "exit.json", {"seconds": seconds, "code": 0, "reason": "finished"})
    return folder


def test_what_is_set_aside_counts_until_it_is_settled(run: RunFolder) -> None:
    """Of agents and of the proxy: whoever was killed in the middle is not forgotten, nor counted twice."""
    proxy = run.root.parents[1] / "proxies" / "r"
    proxy.mkdir(parents=True)
    ours, theirs = Ledger(run.ledger, run.calls_begun()), Ledger(run.ledger, proxy / "begun.jsonl")
    one, two = entry(outcome="killed", tries=1), entry(outcome="killed", job="experiments-002-build_data", cost=None)
    ours.begin(one)
    theirs.begin(two)
    assert (run_spending(run).tokens, run_spending(run).money, run_spending(run).unpriced) == (240, 0.5, ("m",))
    ours.write(one.model_copy(update={"tokens_out": 5, "outcome": "answered"}))
    assert run_spending(run).tokens == 225
    Ledger(run.ledger, proxy / "begun.jsonl")  # the next proxy books what the one before left
    assert (run_spending(run).tokens, len(run.ledger.read_text().splitlines())) == (225, 2)


def test_turns_that_were_cut_short_are_work(run: RunFolder) -> None:
    """By a pause, which says how long; by a crash, until the last sign of life. Waiting for a person in between is none."""
    began = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: float) -> dict[str, Any]:
        return {"at": began + timedelta(seconds=seconds), "experiment": 1}

    append(run.events, NodeStarted(node="train", **at(0)))
    append(run.events, NodeInterrupted(node="train", seconds=20.0, **at(20)))
    append(run.events, RunPaused(reason="no answer", **at(900)))
    append(run.events, NodeStarted(node="train", **at(1000)))
    append(run.events, JobProgress(job="train", done=1, total=2, unit="steps", **at(1030)))
    append(run.events, NodeStarted(node="train", **at(2000)))
    append(run.events, NodeFinished(node="train", seconds=5.0, **at(2005)))
    assert seconds_worked(run) == 55


def test_who_asked_which_model(run: RunFolder) -> None:
    ledger = Ledger(run.ledger, run.calls_begun())
    for job_, model in (("agent:critic", "a"), ("experiments-001-build_data", "a"), ("experiments-001-judge", "j")):
        ledger.write(entry(job=job_, model=model, tokens_cached=40))
    ledger.write(entry(job="experiments-001-build_data", model="", outcome="refused"))
    found = spending_by_requester(run)
    assert list(found) == [("agents", "a"), ("data scripts", "a"), ("judge", "j")]
    assert found["agents", "a"].tokens_cached == 40


def test_gpu_hours_are_devices_times_hours_of_jobs_that_may_use_them(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending, "gpu_count", lambda: 4)
    first = run.experiment(1).root
    job(run, run.baseline, "evaluate.1", 900)
    job(run, first, "train.1", 3600)
    job(run, first, "smoke_run.1", 1800, env={"CUDA_VISIBLE_DEVICES": "0,1"})
    job(run, first, "build_data.1", 3600, generated=True)
    job(run, first, "merge.1", 3600, env={"CUDA_VISIBLE_DEVICES": ""})
    job(run, first / "seeds" / "2", "train.1", 900)
    assert gpu_hours(run) == {0: 1.0, 1: 4 + 1 + 1}
    running = job(run, run.experiment(2).root, "train.1", None)
    os.utime(running / "command.json", (time.time() - 3600,) * 2)
    with try_lock(running / "lock"):
        assert gpu_hours(run)[2] == pytest.approx(4, abs=0.2)
    write_json(run.fork, {"run": "parent", "at": 1, "before": []})
    assert set(gpu_hours(run)) == {2}, "what a fork stands on is paid"
    write_json(run.setup, {"device": "cpu"})
    assert gpu_hours(run) == {}


def test_status_tells_spent_limit_and_left(run: RunFolder) -> None:
    Ledger(run.ledger, run.calls_begun()).write(entry())
    append(run.events, NodeFinished(node="prepare", seconds=30))
    told = json.loads(json.dumps(status_facts(run_status(run))["spent"]))
    assert told["time"] == {"spent": 30.0, "limit": None, "left": None}
    assert told["tokens"] == {"spent": 120, "limit": 1000, "left": 880}
    assert told["money"] == {"spent": 0.5, "limit": 5.0, "left": 4.5}
    assert told["GPU-hours"] == {"spent": 0, "limit": 8.0, "left": 8.0}
    assert told["disk"] > 0


def test_a_job_on_a_cluster_counts_what_its_node_gave_from_when_it_began(run: RunFolder) -> None:
    waits, runs, over = (run.experiment(1).jobs / f"{name}.1" for name in ("waits", "runs", "over"))
    for place in (waits, runs, over):
        write_json(place / "command.json", {"argv": ["x"], "cwd": "/"})
        (place / TICKET).write_text("7")
    (runs / CLAIM).write_text("node 7 4")
    (over / CLAIM).write_text("node 8 2")
    now = (runs / CLAIM).stat().st_mtime
    (runs / ALIVE).touch()
    os.utime(runs / ALIVE, (now + 900, now + 900))
    write_json(over / "exit.json", {"code": 0, "reason": "finished", "seconds": 1800.0})
    assert gpu_hours(run) == {1: pytest.approx(4 * 0.25 + 2 * 0.5)}


def test_hours_of_jobs_that_are_over_are_not_read_again(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt is seen all the same, and one that runs is looked at each time."""
    monkeypatch.setattr(spending, "gpu_count", lambda: 1)
    read = list[Path]()

    def seconds(job: Path) -> float:
        read.append(job)
        return 3600.0

    monkeypatch.setattr(spending, "attempt_seconds", seconds)
    place = run.experiment(1).root
    over = job(run, place, "train.1", 3600.0)
    os.utime(place / "jobs", (1e9, 1e9))
    assert [gpu_hours(run), gpu_hours(run)] == [{1: 1.0}, {1: 1.0}] and read == [over]
    runs = job(run, place, "evaluate.1", None)
    assert [gpu_hours(run), gpu_hours(run)] == [{1: 2.0}, {1: 2.0}]
    assert read.count(runs) == 2
