"""A run that asks: the real graph up to its plans, without a checkpoint as well; nobody trains."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tuneloop.core.event_log import iter_events
from tuneloop.core.events import Approval
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.graph.steering.inbox_listener import answer_offline
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.messages import say
from tuneloop.tools.runs.signature import write_signed_setup


@pytest.fixture
def run(short_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Prepared already: the short run's setup and baseline."""
    monkeypatch.setenv("FT_FILE_PATH", str(short_run.home))
    made = Settings(FT_FILE_PATH=short_run.home).home.run(f"asks-{tmp_path.name}")
    made.root.mkdir()
    write_manifest(made, read_spec(short_run.run).model_copy(update={"approve": "plan", "loop_n": 2}))
    write_signed_setup(made, short_run.run.setup.read_text())
    shutil.copytree(short_run.run.baseline, made.baseline)
    shutil.copytree(short_run.run.root / "datasets", made.root / "datasets", symlinks=True)
    return made


def test_it_pauses_asks_and_obeys(run: RunFolder) -> None:
    settings = Settings(FT_FILE_PATH=run.root.parents[1])
    first = drive(run, settings)
    assert (first.state, first.asks) == ("paused", True)
    asked = open_question(run)
    assert asked is not None and asked.experiment == 1
    assert drive(run, settings).asks
    run.checkpoint.unlink()
    assert drive(run, settings).asks
    assert open_question(run) == asked
    said = say(run, "no, too dear")
    answer_offline(run, settings)
    assert drive(run, settings).asks, "the next plan"
    (failed,) = load_journal(run).experiments
    assert failed.failure is not None
    assert (failed.failure.culprit, failed.failure.text) == ("user", "the plan was turned down by the user: too dear")
    after = open_question(run)
    assert after is not None and after.experiment == 2
    decisions = [(e.experiment, e.decision) for e in iter_events(run.events) if isinstance(e, Approval)]
    assert decisions == [(1, "asked"), (1, "no"), (2, "asked")]
    assert said
    assert not list(run.experiments.glob("*/jobs/build_data.*"))
