"""The event log in portions, by kind, and from its end."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from tuneloop.core.errors import DamagedFileError
from tuneloop.core.event_log import append, find_last_event_offset, iter_events, last_event, read_events
from tuneloop.core.events import JobProgress, NodeFinished, NodeStarted, RunPaused


def progress(done: int) -> JobProgress:
    return JobProgress(job="train", done=done, total=10)


def test_portions_meet_without_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    for done in range(25):
        append(log, progress(done))
    seen, offset = [], 0
    while True:
        events, offset = read_events(log, offset, most=7)
        if not events:
            break
        assert len(events) <= 7
        seen += [e.done for e in events if isinstance(e, JobProgress)]
    assert seen == list(range(25))
    assert offset == log.stat().st_size


def test_damaged_lines_are_skipped_and_a_torn_one_waits(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    append(log, progress(1))
    with log.open("a") as f:
        f.write('garbage\n{"kind":"of the future"}\n' * 3)
    append(log, progress(2))
    whole = log.stat().st_size
    with log.open("a") as f:
        f.write('{"kind":"job_pro')
    events, offset = read_events(log)
    assert [e.done for e in events if isinstance(e, JobProgress)] == [1, 2]
    assert offset == whole
    append(log, progress(3))
    assert [e.done for e in iter_events(log) if isinstance(e, JobProgress)] == [1, 2, 3]


def test_one_kind_and_the_last_of_a_kind(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    assert last_event(log, "node_started", 1000) is None
    for number in (1, 2):
        append(log, NodeStarted(experiment=number, node="train"))
        append(log, NodeFinished(experiment=number, node="train", seconds=number))
    append(log, RunPaused(reason='a text with "kind":"node_finished" in it'))
    assert [e.seconds for e in iter_events(log, "node_finished") if isinstance(e, NodeFinished)] == [1, 2]
    last = last_event(log, "node_started", 4000)
    assert last is not None
    assert last.experiment == 2


def test_a_long_log_is_read_in_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    line = progress(1).model_dump_json() + "\n"
    log.write_text(line * 100_000)
    tracemalloc.start()
    assert sum(1 for _ in iter_events(log)) == 100_000
    events, _ = read_events(log)
    assert len(events) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


def test_a_log_whose_end_is_one_hole_is_damaged(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    append(log, NodeStarted(experiment=1, node="train"))
    os.truncate(log, 1 << 38)
    with pytest.raises(DamagedFileError, match=r"events\.jsonl is damaged"):
        find_last_event_offset(log, "node_started")
