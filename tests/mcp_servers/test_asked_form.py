"""The first config and the model's card follow the form in which the run's evaluation asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import linked_home
from tests.prepared import prepared, wordproblems
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.params import ParameterTools
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.engines import Engine


@pytest.mark.parametrize(("form", "asked", "template"), [("auto", "chat", "chatml"), ("base", "raw", "empty")])
def test_a_suggestion_trains_as_the_evaluation_asks(
    tmp_path: Path, llamafactory: Engine, tiny: Path, form: str, asked: str, template: str
) -> None:
    settings = Settings(FT_FILE_PATH=linked_home(tmp_path / "home"))
    run, found = settings.home.run("r"), wordproblems(settings.home)
    declared = found.benchmark.model_copy(update={"form": form})
    prepared(
        run, RunSpec(benchmark="wordproblems", base_model="tiny"), BenchmarkFolder(declared, found.root, "-"), tiny
    )
    tools = ParameterTools(Scope(run, settings))
    assert tools.suggest_config()["values"]["template"] == template
    assert (tools.model_card()["asked"], tools.model_card()["chat_template"]) == (asked, True)
    told = [found for found in tools.check_config(f"template: {template}\n")["findings"] if found["key"] == "template"]
    assert told == [], "what is suggested is not warned of"
