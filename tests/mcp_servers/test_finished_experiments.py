"""An experiment that is finished is read by every tool and written by none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.errors import ToolError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.mcp_servers.data import DataTools
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.training import TrainingTools
from tuneloop.tools.runs.manifest import write_manifest

WRITING: dict[str, Callable[[Scope], Any]] = {
    "try_script": lambda scope: DataTools(scope).try_script(1, "print(1)"),
    "a script that would be refused": lambda scope: DataTools(scope).try_script(1, "import socket"),
    "launch train": lambda scope: TrainingTools(scope).launch(1, "train"),
    "launch smoke_run": lambda scope: TrainingTools(scope).launch(1, "smoke_run"),
    "show_tokens": lambda scope: TrainingTools(scope).show_tokens(1),
    "stop": lambda scope: TrainingTools(scope).stop(1, "train"),
}


@pytest.mark.parametrize("tool", WRITING.values(), ids=WRITING)
def test_no_tool_writes_into_it(tool: Callable[[Scope], Any]) -> None:
    run = load_settings().home.run("r")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny"))
    folder = run.experiment(1)
    for file in (folder.script, folder.config, folder.data / "report.json", folder.result):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    before = tree(run)
    with pytest.raises(ToolError, match="experiment 1 is finished"):
        tool(Scope(run, load_settings()))
    assert tree(run) == before


def tree(run: RunFolder) -> dict[Path, bytes]:
    """Every file of the run."""
    return {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
