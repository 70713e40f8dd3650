"""An evaluation's jobs: a judge who could not be asked everything has judged nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tuneloop.core.errors import InfrastructureError, LimitReachedError
from tuneloop.core.job import Exit, JobStatus
from tuneloop.tools.evaluation.jobs import Evaluation, check_judge
from tuneloop.tools.jobs.run_tools import RunTools


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        (
            "answered 3 of 8 questions: limit_reached: this run may use 2 USD",
            LimitReachedError,
            "could not be asked every",
        ),
        ("the provider refused the user's key", InfrastructureError, "did not answer"),
    ],
)
def test_what_a_judge_was_not_asked_is_not_wrong(tmp_path: Path, line: str, error: type[Exception], says: str) -> None:
    (tmp_path / "log.txt").write_text(f"error: {line}\n")
    over = JobStatus(state="over", exit=Exit(reason="finished", code=1, seconds=1.0))
    run_tools: Any = SimpleNamespace(
        status=lambda *_: (over, tmp_path), failure_text=partial(RunTools.failure_text, cast("Any", None))
    )
    with pytest.raises(error, match=says):
        check_judge(cast("Evaluation", SimpleNamespace(run_tools=run_tools, folder=SimpleNamespace(jobs=tmp_path))))
