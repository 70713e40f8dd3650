"""Time of nodes from events and job folders: honest when sessions ended in the middle, the same at any length."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tuneloop.core.events import (
    AgentAnswered,
    Event,
    JobProgress,
    NodeFinished,
    NodeStarted,
    RunPaused,
    RunStarted,
)
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.report.tables import time_by_experiment, time_by_node
from tuneloop.tools.report.timing import job_seconds, node_times, remember_over, total_time
from tuneloop.tools.report.turns import NodeTime

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def started(seconds: float) -> RunStarted:
    return RunStarted(at=at(seconds), run="r", benchmark="b", base_model="m", planner="p", sandbox="s")


def write(run: RunFolder, *events: Event | str) -> None:
    lines = [e if isinstance(e, str) else e.model_dump_json() for e in events]
    run.root.mkdir(parents=True, exist_ok=True)
    run.events.write_text("\n".join(lines) + "\n")


def job(place: Path, name: str, *, seconds: float | None, alive: float = 0) -> None:
    folder = place / "jobs" / name
    folder.mkdir(parents=True)
    (folder / "command.json").write_text("{}")
    (folder / "log.txt").write_text("x")
    os.utime(folder / "command.json", (1e9, 1e9))
    os.utime(folder / "log.txt", (1e9 + alive, 1e9 + alive))
    if seconds is not None:
        (folder / "exit.json").write_text(json.dumps({"code": 0, "reason": "finished", "seconds": seconds}))


def test_turns_jobs_and_what_a_crash_cost(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r")
    write(
        run,
        started(0),
        NodeStarted(at=at(1), node="prepare"),
        NodeFinished(at=at(11), node="prepare", seconds=10, cpu=2),
        NodeStarted(at=at(11), node="research"),
        NodeFinished(at=at(12), experiment=1, node="research", seconds=1, cpu=0.1),
        NodeStarted(at=at(12), experiment=1, node="train"),
        JobProgress(at=at(40), experiment=1, job="train", done=1, total=9),
        # kill -9, an hour of nothing; the job went on
        started(3600),
        NodeStarted(at=at(3601), experiment=1, node="train"),
        NodeFinished(at=at(3605), experiment=1, node="train", seconds=4, cpu=0.2),
        NodeStarted(at=at(3605), experiment=1, node="evaluate"),
        RunPaused(at=at(3615), reason="stopped on request"),
        started(5000),
        NodeStarted(at=at(5001), experiment=1, node="evaluate"),
        '{"kind":"node_finished","torn',
        NodeFinished(at=at(5004), experiment=1, node="evaluate", seconds=3, cpu=0.1),
        NodeStarted(at=at(5004), experiment=1, node="critique"),
    )
    folder = run.experiment(1)
    job(run.baseline, "evaluate.1", seconds=8)
    job(folder.root, "dry_run.1", seconds=0.5)
    job(folder.root, "train.1", seconds=None, alive=28)
    job(folder.root, "train.2", seconds=60)
    found = {(t.experiment, t.node): t for t in node_times(run)}
    assert found[0, "prepare"] == NodeTime(experiment=0, node="prepare", turns=1, seconds=10, cpu=2, jobs=8, attempts=1)
    train = found[1, "train"]
    assert (train.turns, train.seconds, train.cut, train.lost) == (1, 4, 1, 28), "the hour is nobody's time"
    assert (train.attempts, train.jobs) == (2, 88)
    assert (found[1, "evaluate"].cut, found[1, "evaluate"].lost) == (1, 10)
    assert found[1, "validate"].jobs == 0.5
    assert found[1, "research"].seconds == 1
    assert (1, "critique") not in found, "the turn at hand is not over"
    assert total_time(found.values()).seconds == 18


def test_interrupted_idea_belongs_to_its_experiment(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r")
    said = AgentAnswered(at=at(3), agent="researcher", says="x")
    write(run, started(0), NodeStarted(at=at(1), experiment=4, node="research"), said, started(9))
    assert node_times(run) == (NodeTime(experiment=5, node="research", cut=1, lost=2),)


def test_answers_from_the_cache_are_counted(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "r")
    known = {"items": [{"id": "1"}, {"id": "2"}]}
    asked = [{"model": "m", "set": "b", "key": "k", "known": row} for row in (known, None)]
    write_json(run.experiment(2).root / "evaluation.json", {"asked": [asked[0], {**asked[1], "set": "c"}]})
    assert node_times(run) == (NodeTime(experiment=2, node="evaluate", cached=2),)


def test_a_run_without_events(tmp_path: Path) -> None:
    assert node_times(RunFolder(tmp_path / "none")) == ()


def test_tables_stay_short(report_of_many) -> None:
    lines = time_by_experiment(report_of_many).splitlines()
    assert len(lines) == 2 + 20 + 1
    assert lines[-1].startswith("| 981 others | ")
    assert lines[0] == "| # | train | all | jobs | CPU |"
    assert time_by_node(report_of_many).splitlines()[-1].startswith("| all | 1001 | ")


@pytest.fixture
def report_of_many():
    class Data:
        times = tuple(NodeTime(experiment=n, node="train", turns=1, seconds=n, jobs=1, attempts=1) for n in range(1001))
        nodes = (total_time(times, "train"),)

    return Data()


@pytest.mark.parametrize("said", ["[]", "7", '{"seconds": [1]}', '{"seconds": null}', "{", "\0", '"x"'])
def test_an_end_that_cannot_be_read_is_none(tmp_path: Path, said: str) -> None:
    for name, text, written in (("command.json", "{}", 100), ("log.txt", "", 130), ("exit.json", said, 130)):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (written, written))
    assert job_seconds(tmp_path) == 30


def test_an_attempt_that_is_not_started_yet_is_not_over(tmp_path: Path) -> None:
    (tmp_path / "train.1").mkdir()
    os.utime(tmp_path, (1e9, 1e9))
    assert [remember_over("x", tmp_path, partial(float, n)) for n in (0.0, 1.0)] == [0.0, 1.0]
    (tmp_path / "train.1" / "exit.json").write_text("{}")
    assert [remember_over("x", tmp_path, partial(float, n)) for n in (2.0, 3.0)] == [2.0, 2.0]
