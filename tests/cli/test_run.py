"""`tuneloop run` before it runs: what nobody named, the plan of a dry run, the seeds' variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.crash.world import write_task
from tuneloop.cli.main import cli
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.runs.manifest import all_runs, read_spec


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))
    monkeypatch.setattr("tuneloop.cli.drive.drive_in_terminal", lambda *_, **__: 0)
    return Home(tmp_path / "home")


def call(*args: str, typed: str = "") -> Result:
    return CliRunner().invoke(cli, ["run", *args], input=typed)


def spec_of(home: Home) -> RunSpec:
    (run,) = all_runs(home)
    return read_spec(run)


def test_default_benchmark_is_aime25_with_a_warning(home: Home) -> None:
    result = call("--base-model", "tiny", "--loop-n", "1")
    assert result.exit_code == 2 or spec_of(home).benchmark == "aime25"
    assert [line for line in result.stderr.splitlines() if "WARNING" in line and "aime25" in line]


@pytest.mark.parametrize("name", ["FT_TARGET_BENCHMARK", "FT_BENCHMARK_DATASETS"])
def test_a_named_benchmark_is_taken_without_a_warning(home: Home, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "wordproblems")
    result = call("--loop-n", "1")
    assert (result.exit_code, spec_of(home).benchmark) == (0, "wordproblems"), result.output
    assert "WARNING" not in result.stderr


def test_a_terminal_is_asked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneloop.cli.terminal.is_interactive", lambda: True)
    task = write_task(home.root.parent / "task")
    result = call("--dataset", str(task / "data"), typed=f"{task}\ntiny\n")
    assert result.exit_code == 0, result.output
    assert (spec_of(home).benchmark, spec_of(home).base_model) == (str(task), "tiny")
    assert "wordproblems" in result.stderr and "WARNING" not in result.stderr


def test_no_end_is_told(home: Home) -> None:
    assert "tuneloop stop" in call("--benchmark", "wordproblems").stderr
    assert "no end" not in call("--benchmark", "wordproblems", "--run-id", "r2", "--max-cost", "1").stderr


def test_a_dry_run_shows_everything_and_makes_nothing(home: Home) -> None:
    task = write_task(home.root.parent / "task")
    before = sorted(home.root.parent.rglob("*"))
    asked = ("--benchmark", str(task), "--dataset", str(task / "data"), "--base-model", "tiny", "--dry-run")
    text = call(*asked, "--loop-n", "2", "--timeout", "1h").stdout
    for said in ("tiny", str(task), "2 experiments", "1 h", "24 sealed items", "llamafactory"):
        assert said in text, text
    assert "2 experiments in a row without a better one" in call(*asked, "--patience", "2").stdout
    told = json.loads(call(*asked, "--json").stdout)
    needs: dict[str, Any] = {need["name"]: need["action"] for need in told["needs"]}
    assert needs["llamafactory"] == "build" and needs[str(task)] == "here"
    assert sorted(home.root.parent.rglob("*")) == before


def test_a_dry_run_refuses_what_a_run_would(home: Home) -> None:
    result = call("--benchmark", "wordproblms", "--base-model", "tiny", "--dry-run")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1


def test_a_dry_run_forecasts_by_earlier_runs(home: Home) -> None:
    from tests.cli.conftest import make_run
    from tests.cli.test_status import finished_experiment

    finished_experiment(make_run(home, "r1"), 1, seconds=120.0)
    text = call("--benchmark", "wordproblems", "--loop-n", "3", "--dry-run").stdout
    assert "about 2 min" in text and "6 min" in text


@pytest.mark.parametrize("value", ["None", "none", "", "null"])
def test_no_limit_of_items_as_the_seeds_write_it(home: Home, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FT_BENCHMARK_LIMIT", value)
    assert call("--benchmark", "wordproblems").exit_code == 0
    assert spec_of(home).benchmark_limit is None


def test_variables_that_do_nothing_say_why(home: Home) -> None:
    Path(".env").write_text("FT_UPDATE_LLAMA_FACTORY=True\nCUSTOM_PROMPT=Think hard.\n")
    said = call("--benchmark", "wordproblems", "--dry-run").stderr
    assert "FT_UPDATE_LLAMA_FACTORY" in said and "locks" in said
    assert "CUSTOM_PROMPT" in said and "own_task" in said
    Path(".env").write_text("FT_UPDATE_LLAMA_FACTORY=False\n")
    assert "UPDATE" not in call("--benchmark", "wordproblems", "--dry-run").stderr


def test_an_evaluation_refuses_another_prompt(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSTOM_PROMPT", "Think hard.")
    result = CliRunner().invoke(cli, ["eval", "tiny", "--benchmark", "wordproblems"])
    assert result.exit_code == 2 and "CUSTOM_PROMPT" in result.stderr and not home.root.exists()
