"""Requests to pause around a drive: one that comes while a run begins to ask is kept, later runs are not stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle import drive as module
from tuneloop.graph.lifecycle.drive import RunOutcome, drive
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import put, waiting


@pytest.mark.parametrize("late", [True, False])
def test_pause_that_comes_while_a_run_begins_to_ask_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1))
    put(run.inbox, do="pause")  # from before: nobody worked on the run

    def asks(*_: object) -> RunOutcome:
        assert waiting(run.inbox) == []
        if late:
            put(run.inbox, do="pause")
        return RunOutcome("paused", "a person is asked", asks=True, question="more?")

    monkeypatch.setattr(module, "_drive", asks)
    outcome = drive(run, settings)
    assert (outcome.asks, outcome.question) == ((False, "") if late else (True, "more?"))
    assert waiting(run.inbox) == []
