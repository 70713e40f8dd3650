"""The index beside a long log: the same answers as the whole log gives, at the price of what is new in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.tools.report.test_timing import started
from tuneloop.core import event_log
from tuneloop.core.event_log import append, whole_blocks
from tuneloop.core.events import JobProgress, NodeFinished, NodeInterrupted, NodeStarted, RunPaused
from tuneloop.core.files import read_model, write_json
from tuneloop.tools.report import turns
from tuneloop.tools.report.turns import TurnIndex, index_file, node_turns, seconds_at_work

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of three experiments, indexed after each kilobyte; the third one's training was cut by a kill."""
    monkeypatch.setattr(turns, "WORTH", 1000)
    events = tmp_path / "events.jsonl"
    append(events, started(0))
    for number in (1, 2, 3):
        write_experiment(events, number)
    return events


def write_experiment(events: Path, number: int) -> None:
    """A training that is reported twenty times; every third is cut without a word."""
    begun = START + timedelta(hours=number)
    append(events, NodeStarted(at=begun, experiment=number, node="train"))
    for i in range(20):
        at = begun + timedelta(seconds=i)
        append(events, JobProgress(at=at, experiment=number, job="train", done=i, total=20))
    if number % 3:
        append(events, NodeFinished(at=begun, experiment=number, node="train", seconds=30, cpu=1))


def read_all(events: Path) -> list[turns.NodeTime]:
    """What the log says without an index."""
    index_file(events).unlink(missing_ok=True)
    return node_turns(events)


@pytest.mark.parametrize("size", [1, 90, 333, 1000])
def test_blocks_of_any_size_say_the_same(log: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    append(log, started(4 * 3600 + 5))
    with log.open("ab") as f:
        f.write(b'{"kind":"node_finished","node":"torn')
    truth = read_all(log)
    assert [(part.turns, part.cut, part.lost) for part in truth] == [(1, 0, 0), (1, 0, 0), (0, 1, 19)]
    monkeypatch.setattr(event_log, "BLOCK", size)
    assert read_all(log) == truth


def test_index_goes_on_where_it_ended(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node_turns(log)
    kept = read_model(index_file(log), TurnIndex)
    assert kept.offset == log.stat().st_size
    assert kept.begun is not None, "a turn that is not over waits in the index"
    append(log, started(4 * 3600 + 5))
    for number in (4, 5, 6):
        write_experiment(log, number)
    append(log, NodeInterrupted(experiment=6, node="train", seconds=7))
    append(log, RunPaused(reason="stopped on request"))
    read: list[bytes] = []

    def noted(path: Path, at: int) -> Iterator[bytes]:
        for block in whole_blocks(path, at):
            read.append(block)
            yield block

    monkeypatch.setattr(turns, "whole_blocks", noted)
    found = node_turns(log)
    assert sum(map(len, read)) == log.stat().st_size - kept.offset, "what is indexed is not read again"
    assert (found[2].cut, found[2].lost) == (1, 19), (
        "cut after the last sign of life, which lies before the index's end"
    )
    assert found == read_all(log)


@pytest.mark.parametrize("harm", ["damaged", "another log", "shorter log", "another version", "read-only"])
def test_index_that_does_not_fit_is_made_again(log: Path, harm: str) -> None:
    truth = read_all(log)
    file = index_file(log)
    if harm == "damaged":
        file.write_text('{"offset": 1')
    elif harm == "another version":
        write_json(file, {**read_model(file, TurnIndex).model_dump(mode="json"), "version": 0, "parts": []})
    elif harm == "read-only":
        file.unlink()
        file.mkdir()  # nothing can be written there
    elif harm == "shorter log":
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:25]))
        truth = truth[:1]
    else:
        log.write_text(log.read_text().replace('"node":"train"', '"node":"other"'))
        log.write_text(log.read_text().replace('"job":"train"', '"job":"tr"'))
        truth = [part.model_copy(update={"node": "other"}) for part in truth]
    assert node_turns(log) == truth
    assert read_all(log) == truth if harm != "read-only" else True


def test_short_log_leaves_no_index(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    append(events, started(0))
    write_experiment(events, 1)
    assert node_turns(events)
    assert not index_file(events).exists()


def test_no_log_no_turns(tmp_path: Path) -> None:
    assert node_turns(tmp_path / "events.jsonl") == []


def test_time_of_experiments_side_by_side_is_counted_once(tmp_path: Path) -> None:
    """Two trainings of 100 s with 40 s in common; then one that a kill cut after 20 s, beside one that had ended."""
    events = tmp_path / "events.jsonl"

    def at(seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)

    for number, begun in ((1, 0.0), (2, 60.0)):
        append(events, NodeStarted(at=at(begun), experiment=number, node="train"))
    append(events, NodeFinished(at=at(100), experiment=1, node="train", seconds=100))
    append(events, NodeStarted(at=at(110), experiment=1, node="research"))
    append(events, NodeFinished(at=at(115), experiment=2, node="research", seconds=5))
    append(events, NodeFinished(at=at(160), experiment=2, node="train", seconds=100))
    assert seconds_at_work(events) == 160
    append(events, NodeStarted(at=at(1000), experiment=3, node="train"))
    append(events, NodeStarted(at=at(1005), experiment=4, node="train"))
    append(events, NodeFinished(at=at(1010), experiment=4, node="train", seconds=5))
    append(events, JobProgress(at=at(1020), experiment=3, job="train", done=1, total=2))
    assert seconds_at_work(events) == 180, "it works still"
    append(events, started(2000))
    assert seconds_at_work(events) == 180
    assert {(part.experiment, part.node): part.seconds + part.lost for part in node_turns(events)} == {
        (1, "train"): 100, (2, "train"): 100, (2, "research"): 5, (3, "train"): 20, (4, "train"): 5,
    }  # fmt: skip
