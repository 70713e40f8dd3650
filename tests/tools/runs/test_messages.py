"""Messages and requests to pause, from other processes."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.waiting import until
from tuneloop.core.directive import Line
from tuneloop.core.directive_log import append_row
from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import TICKET
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.tools.housekeeping.removable import inspect_folder
from tuneloop.tools.runs import messages
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import waiting


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "one")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny"))
    return run


def test_message_to_an_idle_run_is_kept(run: RunFolder) -> None:
    said = messages.deliver(run, "use lora_rank=32")
    assert said["taken"] is False
    assert "resume_run" in said["note"]
    assert [read_json(file) for file in waiting(run.inbox)] == [{"do": "say", "text": "use lora_rank=32"}]


def test_message_to_a_working_run_is_answered(run: RunFolder) -> None:
    heard: list[object] = []

    def work() -> None:
        until(lambda: waiting(run.inbox))
        for file in waiting(run.inbox):
            heard.append(read_json(file))
            append_row(run.conversation, Line(id="1", who="tuneloop", text="to another", answers="0"))
            append_row(run.conversation, Line(id="2", who="tuneloop", text="Understood.", answers=file.stem))
            file.unlink()

    with hold_lock(run.lock):
        worker = threading.Thread(target=work)
        worker.start()
        said = messages.deliver(run, "use lora_rank=32")
        worker.join()
    assert (said["taken"], said["answer"]) == (True, "Understood.")
    assert heard == [{"do": "say", "text": "use lora_rank=32"}]


def test_message_that_is_not_read_in_time_is_not_taken(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "READ_SECONDS", 0.2)
    with hold_lock(run.lock):
        said = messages.deliver(run, "use lora_rank=32")
    assert (said["taken"], said["answer"]) == (False, None)
    assert "between two steps" in said["note"]


def test_finished_run_takes_no_message(run: RunFolder) -> None:
    write_json(run.report_json, {})
    with pytest.raises(ToolError, match="is finished"):
        messages.deliver(run, "use lora_rank=32")
    assert waiting(run.inbox) == []


def test_only_a_working_run_can_be_stopped(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "START_SECONDS", 0.1)
    with pytest.raises(ToolError, match="nobody works on run one"):
        messages.stop(run, Settings())
    assert waiting(run.inbox) == []
    with hold_lock(run.lock):
        assert messages.stop(run, Settings())["asked"] is True
    assert [read_json(file) for file in waiting(run.inbox)] == [{"do": "pause"}]


def test_a_run_on_another_machine_is_asked_by_its_inbox(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "START_SECONDS", 0.1)
    lease = run.root / "lease" / "3.json"
    lease.parent.mkdir(parents=True)
    lease.write_text('{"host": "other", "machine": "m", "pid": 1, "since": "2026-01-01T00:00:00Z"}')
    assert messages.stop(run, Settings())["asked"] is True
    assert [read_json(file) for file in waiting(run.inbox)] == [{"do": "pause"}]
    os.utime(lease, (1, 1))
    with pytest.raises(ToolError, match="nobody works on run one"):
        messages.stop(run, Settings())


def test_pause_reaches_a_run_that_starts(run: RunFolder) -> None:
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(messages.request_pause, run)
        time.sleep(0.3)
        with hold_lock(run.lock):
            assert request.result()
            assert [read_json(file) for file in waiting(run.inbox)] == [{"do": "pause"}]


def test_pause_that_comes_too_late_stops_no_later_run(run: RunFolder) -> None:
    messages.put(run.inbox, do="pause")
    messages.put(run.inbox, do="pause", promised="yes")
    messages.put(run.inbox, do="say", text="pause")
    messages.drop_pauses(waiting(run.inbox))
    assert [read_json(file)["do"] for file in waiting(run.inbox)] == ["pause", "say"]


def test_run_command_is_refused(run: RunFolder) -> None:
    with pytest.raises(ToolError, match="start_run"):
        messages.deliver(run, "run benchmark=b base_model=m")
    assert waiting(run.inbox) == []


def test_a_job_that_a_cluster_may_still_have_lives(run: RunFolder) -> None:
    job = run.experiment(1).jobs / "train.1"
    job.mkdir(parents=True)
    (job / "lock").touch()
    assert messages.live_jobs(run) == []
    (job / TICKET).write_text("7")
    assert messages.live_jobs(run) == [job]
    assert inspect_folder(run.root).alive
    write_json(job / "exit.json", {})
    assert messages.live_jobs(run) == []
    assert not inspect_folder(run.root).alive
