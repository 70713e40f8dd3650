"""A data script's run: nothing is believed without its `data.json`, and what was run is not run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import linked_home
from tests.prepared import prepared, wordproblems
from tests.waiting import until
from tuneloop.core.errors import RecipeError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.data_script.run import script_result, start_script
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.run_tools import RunTools

WRITES = 'import json\njson.dump([{"instruction": "1 + 1?", "output": "2"}], open("data.json", "w"))\n'


@pytest.fixture
def run_tools(tmp_path: Path, llamafactory: Engine, tiny: Path) -> RunTools:
    settings = Settings(FT_FILE_PATH=linked_home(tmp_path / "home"))
    run = RunFolder(settings.home.runs / "r")
    run.experiment(1).jobs.mkdir(parents=True)
    (run.root / "datasets").mkdir()
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)
    prepared(run, spec, wordproblems(settings.home), tiny)
    return RunTools(run, settings)


def written(run_tools: RunTools, code: str, *, debug: bool = True) -> Path:
    folder = run_tools.run.experiment(1)
    folder.script.write_text(code)
    name = start_script(run_tools, folder, debug=debug)
    status, job = until(
        lambda: found if (found := run_tools.status(folder.jobs, name))[0].state == "over" else None, 60
    )
    return script_result(run_tools, folder, status, job, debug=debug)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print('done')\n", r"ended well but wrote no data\.json"),
        ("import os\nos.symlink('/etc/hostname', 'data.json')\n", r"ended well but left a data\.json that is not read"),
        (f"{WRITES}raise SystemExit('not yet')\n", "not yet"),
    ],
    ids=["nothing", "a link", "a failure behind it"],
)
def test_script_without_output_has_failed(run_tools: RunTools, code: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says) as failed:
        written(run_tools, code)
    assert failed.value.culprit == "script"


def test_what_was_run_is_not_run_again_whatever_the_config_says(run_tools: RunTools) -> None:
    folder = run_tools.run.experiment(1)
    stamped = WRITES.replace('"2"', "str(__import__('time').time_ns())")
    first = written(run_tools, stamped)
    before = json.loads(first.read_text())
    folder.config.write_text("learning_rate: 0.1\n")
    again = written(run_tools, stamped)
    assert (again, json.loads(again.read_text())) == (first, before)
    other = written(run_tools, f"{stamped}\n# changed\n")
    assert json.loads(other.read_text()) != before
    assert json.loads(written(run_tools, stamped, debug=False).read_text()) != before
