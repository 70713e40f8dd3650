"""`data_try_script` waits for a short script and says what it printed, what the gate makes of its rows, and the first of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import linked_home
from tests.prepared import prepared, wordproblems
from tests.waiting import until
from tuneloop.core.errors import ToolError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers import data
from tuneloop.mcp_servers.data import DataTools
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.engines import Engine

CODE = """import json, sys
rows = [{"instruction": f"What is {n} plus 1?", "output": f"It is {n + 1}." if n % 3 else ""} for n in range(30)]
rows = rows[:9] if "--debug" in sys.argv else rows
json.dump(rows, open("data.json", "w"))
print("reading")
print(json.dumps({"written": len(rows)}))
"""


@pytest.fixture
def tools(tmp_path: Path, llamafactory: Engine, tiny: Path) -> DataTools:
    home = linked_home(tmp_path / "home")
    run = RunFolder(home / "runs" / "r")
    run.experiment(1).jobs.mkdir(parents=True)
    (run.root / "datasets").mkdir()
    settings = Settings(FT_FILE_PATH=home)
    prepared(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1), wordproblems(settings.home), tiny)
    return DataTools(Scope(run, settings))


@pytest.mark.parametrize(("all_rows", "written"), [(False, 9), (True, 30)])
def test_a_short_script_is_over_at_once(tools: DataTools, all_rows: bool, written: int) -> None:
    found = tools.try_script(1, CODE, all_rows)
    if found["state"] != "over":  # a busy machine
        found = until(lambda: t if (t := tools.try_result(1, all_rows))["state"] == "over" else None, 120)
    assert (found["said"], found["rows"]) == (f'{{"written": {written}}}', written)
    assert found["gate"]["dropped"] == {"empty output": written // 3}
    assert found["gate"]["errors"], "a third of the rows is empty"
    assert found["first"] == ([] if all_rows else found["first"][:5])


def test_a_long_script_is_asked_for(tools: DataTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "TRY_WAITS", 1)
    found = tools.try_script(1, "import time\ntime.sleep(2)\n" + CODE)
    assert found["state"] == "running"
    until(lambda: tools.try_result(1)["state"] == "over", 120)


def test_models_are_not_asked_for_all_rows(tools: DataTools) -> None:
    more: dict[str, Any] = {"FT_STRONG_MODELS": '["m"]', "OPENAI_API_KEY": "sk-test-0123456789"}
    asking = DataTools(Scope(tools.scope.run, Settings(FT_FILE_PATH=tools.scope.settings.home.root, **more)))
    with pytest.raises(ToolError, match="may ask models"):
        asking.try_script(1, CODE, all_rows=True)
