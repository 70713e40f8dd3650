"""What is said to a run, and what is honestly answered of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.waiting import until
from tuneloop.core.directive import Line
from tuneloop.core.directive_log import write_down
from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.graph.lock import hold
from tuneloop.tools.runs import told
from tuneloop.tools.runs.inbox import waiting


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    return RunFolder(tmp_path / "runs" / "one")


def test_what_nobody_hears_is_kept(run: RunFolder) -> None:
    said = told.say(run, "try rank 32")
    assert said["taken"] is False
    assert "resume_run" in said["note"]
    assert [read_json(file) for file in waiting(run.inbox)] == [{"do": "say", "text": "try rank 32"}]


def test_who_works_on_it_takes_it(run: RunFolder) -> None:
    heard: list[object] = []

    def work() -> None:
        until(lambda: waiting(run.inbox))
        for file in waiting(run.inbox):
            heard.append(read_json(file))
            write_down(run.conversation, Line(id="1", who="tuneloop", text="to another", answers="0"))
            write_down(run.conversation, Line(id="2", who="tuneloop", text="Understood.", answers=file.stem))
            file.unlink()

    with hold(run.lock):
        worker = threading.Thread(target=work)
        worker.start()
        said = told.say(run, "try rank 32")
        worker.join()
    assert (said["taken"], said["answer"]) == (True, "Understood.")
    assert heard == [{"do": "say", "text": "try rank 32"}]


def test_who_is_busy_has_not_taken_it(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "TAKE_SECONDS", 0.2)
    with hold(run.lock):
        said = told.say(run, "try rank 32")
    assert (said["taken"], said["answer"]) == (False, None)
    assert "between two steps" in said["note"]


def test_a_finished_run_is_told_nothing(run: RunFolder) -> None:
    write_json(run.report_json, {})
    with pytest.raises(ToolError, match="is finished"):
        told.say(run, "try rank 32")
    assert waiting(run.inbox) == []


def test_only_who_works_can_be_stopped(run: RunFolder) -> None:
    with pytest.raises(ToolError, match="nobody works on run one"):
        told.stop(run)
    assert waiting(run.inbox) == []
    with hold(run.lock):
        assert told.stop(run)["asked"] is True
    assert [read_json(file) for file in waiting(run.inbox)] == [{"do": "pause"}]
