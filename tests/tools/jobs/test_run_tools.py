"""What a run's tools start from."""

from pathlib import Path

from tests.prepared import prepared, wordproblems
from tuneloop.core.files import read_json
from tuneloop.core.run_spec import RunSpec, Setup
from tuneloop.core.settings import Settings
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.signature import write_setup


def test_a_prepared_run_keeps_the_sandbox_that_auto_was(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_UNSANDBOXED="always")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", sandbox="auto")
    found = wordproblems(settings.home)
    run = prepared(settings.home.run("r"), spec, found, tmp_path, sandbox="bubblewrap")
    assert RunTools(run, settings).sandbox.kind == "bubblewrap"
    write_setup(run, Setup.model_validate(read_json(run.setup) | {"sandbox": "process"}))
    assert RunTools(run, settings).sandbox.kind == "process"
