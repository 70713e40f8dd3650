from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.layout import Home
from tuneloop.core.run_lease import Holder, is_worked_on
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.start import LOG, resume_detached, resume_run, start_from_options


def test_a_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "another"))  # the run's own home is meant
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    run.spec.write_text('version: "99"\nformat: 99\n')
    assert "made by a newer tuneloop (99)" in resume_detached(run)
    assert "made by a newer tuneloop (99)" in (run.root / LOG).read_text()


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"benchmark": "nothing", "base_model": "tiny", "run_id": "r1"}, "nothing"),
        ({"benchmark": "gsm8k", "base_model": "tiny", "run_id": "r 1"}, "right are up to 80 letters"),
        ({"benchmark": "gsm8k", "base_model": "tiny", "sandbox": "process", "run_id": "r1"}, "--sandbox 'process'"),
        ({"benchmark": "gsm8k", "base_model": "tiny", "allow_unsandboxed": "1", "run_id": "r1"}, "--allow-unsandboxed"),
        ({"benchmark": "gsm8k", "base_model": "tiny", "repeat": "r2", "run_id": "r1"}, "--repeat"),
        ({"benchmark": "gsm8k", "base_model": "tiny", "guards": "mmlu", "run_id": "r1"}, "--max-regression 'mmlu'"),
    ],
)
def test_refused_options_leave_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], refusal: str
) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    monkeypatch.setenv("TUNELOOP_UNSANDBOXED", "fallback")
    with pytest.raises(InvalidRequestError, match=refusal):
        start_from_options(Settings(FT_FILE_PATH=tmp_path), options)
    assert not (tmp_path / "runs" / "r1").exists()


def test_a_run_that_another_machine_still_holds_is_left_to_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    run = home.run("r1")
    (run.root / "lease").mkdir(parents=True)
    other = Holder(host="other", machine="other", pid=1, since=datetime.now(UTC))
    (run.root / "lease" / "1.json").write_text(other.model_dump_json())
    assert is_worked_on(run.root)
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    run.spec.write_text('version: "99"\nformat: 99\n')
    with pytest.raises(ToolError, match="made by a newer tuneloop"):
        resume_run(home, run)
