"""How often a test split was read does not depend on the words around it."""

from pathlib import Path

from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.reads import count_reads
from tuneloop.tools.workbench import Workbench


def test_another_description_makes_no_new_test(short_run, tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=short_run.home)
    assert count_reads(Workbench(short_run.run, settings)) == 1
    run = RunFolder(tmp_path / "later")
    run.root.mkdir()
    setup = read_json(short_run.run.setup)
    setup["benchmark"]["description"] = "the same items in other words"
    write_json(run.setup, setup | {"benchmark_fingerprint": "0" * 16})
    assert count_reads(Workbench(run, settings)) == 1
