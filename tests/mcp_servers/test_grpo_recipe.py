"""A GRPO recipe over the parameter server: suggested where the run can train so, and then without a finding."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import ToolError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.params import ParameterTools
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.training import grpo_recipe


@pytest.fixture
def tools(tmp_path: Path, tiny: Path) -> ParameterTools:
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    run = settings.home.run("r")
    prepared(run, RunSpec(benchmark="wordproblems", base_model="tiny"), wordproblems(settings.home), tiny)
    return ParameterTools(Scope(run, settings))


def test_what_is_suggested_is_right(tools: ParameterTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo_recipe, "find_built_engine", lambda *_: "there")
    values = tools.suggest_config(stage="grpo", steps=30)["values"]
    assert (values["stage"], values["max_steps"]) == ("grpo", 30)
    assert tools.check_config(yaml.safe_dump(values)) == {"findings": []}


def test_without_the_engine_nothing_is_suggested(tools: ParameterTools) -> None:
    with pytest.raises(ToolError, match=r"grpo needs the engine trl, which is not built .*; right is stage sft"):
        tools.suggest_config(stage="grpo")
