"""What a run is doing, read from its events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tuneloop.core.directive import Directive, Finish
from tuneloop.core.directive_log import append_row
from tuneloop.core.event_log import append
from tuneloop.core.events import Event, JobProgress, NodeStarted, RecipeFailure, RunPaused, RunStarted
from tuneloop.core.layout import RunFolder
from tuneloop.tools.runs.status import UNSAID, current_activity

BEGAN = RunStarted(run="one", benchmark="b", base_model="m", planner="offline", sandbox="process")
TRAIN, STEP = NodeStarted(node="train"), JobProgress(job="train", done=3, total=9, note="loss 1.2")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def tell(run: RunFolder, *events: Event) -> None:
    """One event a second."""
    for second, event in enumerate(events):
        append(
            run.events, event.model_copy(update={"at": datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=second)})
        )


def test_why_it_paused(run: RunFolder) -> None:
    tell(run, BEGAN, RecipeFailure(node="train", culprit="environment", text="disk full"), RunPaused(reason="no room"))
    assert current_activity(run, "paused") == {
        "trouble": "disk full",
        "paused_because": "no room",
        "directives": [],
    }


def test_a_process_that_died_said_nothing(run: RunFolder) -> None:
    """What it said in an earlier session is no reason for this one."""
    tell(run, BEGAN, RunPaused(reason="stopped on request"), BEGAN, TRAIN)
    assert current_activity(run, "paused")["paused_because"] == UNSAID


def test_a_new_run_does_nothing(run: RunFolder) -> None:
    assert current_activity(run, "new") == {"trouble": None, "paused_because": None, "directives": []}


def test_directives_that_hold(run: RunFolder) -> None:
    for state in ("open", "revoked"):
        append_row(run.directives, Directive(id=state, text="stop after this one", command=Finish(), state=state))
    told = {"id": "open", "text": "stop after this one", "kind": "finish", "state": "open"}
    assert current_activity(run, "new")["directives"] == [told]
