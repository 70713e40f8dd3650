"""What ends with a training that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import RecipeError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import check_end
from tuneloop.graph.state import State
from tuneloop.tools.jobs.run_tools import RunTools


def test_a_failed_training_leaves_no_scorer_with_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    run = settings.home.run("r")
    prepared(run, RunSpec(benchmark="wordproblems", base_model="tiny"), wordproblems(settings.home), tmp_path)
    stopped: list[str] = []
    monkeypatch.setattr(RunTools, "stop", lambda _, jobs, name: stopped.append(name))
    with pytest.raises(RecipeError, match="smoke_run failed"):
        check_end(Context(run, settings, State(run_id="r", experiment=1)), "smoke_run")
    assert stopped == ["score"]
