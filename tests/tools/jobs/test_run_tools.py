"""What a run's tools start from."""

from pathlib import Path

import yaml

from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.jobs.run_tools import RunTools


def test_a_prepared_run_keeps_the_sandbox_that_auto_was(short_run, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.root.mkdir()
    spec = yaml.safe_load(short_run.run.spec.read_text()) | {"sandbox": "auto", "allow_unsandboxed": True}
    run.spec.write_text(yaml.safe_dump(spec))
    run_tools = RunTools(run, Settings(FT_FILE_PATH=short_run.home))
    assert run_tools.sandbox.kind == "bubblewrap"
    write_json(run.setup, read_json(short_run.run.setup) | {"sandbox": "process"})
    assert RunTools(run, run_tools.settings).sandbox.kind == "process"
