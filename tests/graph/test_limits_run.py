"""A run whose tokens are over comes to its end: the sealed test is read, the report says what was spent of what."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chat_server import Call, Reply, chat_server
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import LimitWarning
from tuneloop.core.files import read_json
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.signature import write_signed_setup

LOOK = Reply("", (Call("data_list_datasets", {}),), usage=(9000, 100, 4000))


def test_it_finishes_with_the_best_so_far(short_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its researcher looks at data until no call fits any more; nobody is there who could give more."""
    monkeypatch.setenv("FT_FILE_PATH", str(short_run.home))
    run = Settings(FT_FILE_PATH=short_run.home).home.run(f"dear-{tmp_path.name}")
    run.root.mkdir()
    write_manifest(run, read_spec(short_run.run).model_copy(update={"max_tokens": 30_000, "loop_n": 3}))
    write_signed_setup(run, short_run.run.setup.read_text())
    shutil.copytree(short_run.run.baseline, run.baseline)
    shutil.copytree(short_run.run.root / "datasets", run.root / "datasets", symlinks=True)
    with chat_server(lambda _: LOOK) as chat:
        for name, value in {"CHAT_MODEL": "m", "OPENAI_API_BASE": chat.url, "OPENAI_API_KEY": "none"}.items():
            monkeypatch.setenv(name, value)
        ended = drive(run, Settings(FT_FILE_PATH=short_run.home))
    assert ended.state == "finished"
    report = read_json(run.report_json)
    (only,) = report["experiments"]
    assert only["failure"]["culprit"] == "environment" and "the run may spend 30000 tokens" in only["failure"]["text"]
    assert report["baseline"]["test"]["n"] > 0, "the sealed test was read"
    told = report["budget"]["spent"]
    assert 0 < told["tokens"]["spent"] <= 30_000 and told["unpriced"] == ["m"]
    assert {use["who"] for use in told["models"]} == {"agents"}
    assert "| tokens |" in run.report.read_text() and "| unknown |" in run.report.read_text()
    near = [event.of for event in iter_events(run.events) if isinstance(event, LimitWarning)]
    assert near in ([], ["tokens"]), "not twice"
