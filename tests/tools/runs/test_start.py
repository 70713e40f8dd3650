from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.start import LOG, resume_detached, start_from_options


def test_a_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    run.spec.write_text('version: "99"\nformat: 99\n')
    assert "made by a newer tuneloop (99)" in resume_detached(run)
    assert "made by a newer tuneloop (99)" in (run.root / LOG).read_text()


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"benchmark": "nothing", "base_model": "tiny", "run_id": "r1"}, "nothing"),
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
