"""`tuneloop batch`: its words, and what is said where there is nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tools.batch.made import TASK, finished
from tuneloop.cli.main import cli
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home


def test_batch_over_is_reported_and_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))
    call = CliRunner().invoke
    for words in (["stop"], ["resume"], ["report"]):
        result = call(cli, ["batch", *words])
        assert result.exit_code == 2 and "no batch yet" in result.stderr
    finished(Home(tmp_path / "home"), "mine-1-wordproblems-tiny")
    write_json(tmp_path / "tasks.json", [TASK])
    begun = call(cli, ["batch", str(tmp_path / "tasks.json"), "--name", "mine"])
    assert begun.exit_code == 0 and "| wordproblems | tiny | 1 |" in begun.stdout, begun.output
    assert call(cli, ["batch", "report"]).stdout == begun.stdout
    stopped = call(cli, ["batch", "stop", "mine"])
    assert stopped.exit_code == 2 and "nothing to stop" in stopped.stderr
    assert "no batch 'other'" in call(cli, ["batch", "stop", "other"]).stderr
