from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.layout import Home
from tuneloop.tools.runs.start import LOG, resume_detached


def test_a_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    run = Home(tmp_path).run("r1")
    run.root.mkdir(parents=True)
    run.spec.write_text('version: "99"\nformat: 99\n')
    assert "made by a newer tuneloop (99)" in resume_detached(run)
    assert "made by a newer tuneloop (99)" in (run.root / LOG).read_text()
