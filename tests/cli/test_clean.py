"""`tuneloop clean` shows before it deletes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tuneloop.cli.main import cli

OLD = 1_700_000_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path))
    for name in (
        "models/.a.part/model.safetensors",
        "cache/evaluations/1.json",
        "runs/r/run.yaml",
        "runs/r/report.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True) if not path.parent.exists() else None
        path.write_bytes(b"x" * 1_000_000)
        for p in (path, path.parent):
            os.utime(p, (OLD, OLD))
    return tmp_path


def call(*args: str, said: str = "") -> Result:
    return CliRunner().invoke(cli, ["clean", *args], input=said)


def test_it_shows_then_asks(home: Path) -> None:
    asked = call(said="n\n")
    assert asked.exit_code == 0
    assert "models/.a.part" in asked.output and "begun and never finished" in asked.output
    assert "2 MB in 2 places" in asked.output and "Remove 2 MB? [y/N]" in asked.output
    assert (home / "models" / ".a.part").exists()
    assert "removed 2 MB" in call(said="y\n").output
    assert not (home / "models" / ".a.part").exists()
    assert (home / "runs" / "r").exists()
    assert "nothing may go" in call().output


def test_a_dry_run_and_json_remove_nothing(home: Path) -> None:
    assert "2 MB in 2 places" in call("--dry-run", "--yes").stdout
    told = json.loads(call("--json").stdout)
    assert [(f["kind"], f["what"]) for f in told] == [("leftovers", "models/.a.part"), ("caches", "cache/evaluations")]
    assert all(f["bytes"] >= 1_000_000 and f["why"] and f["paths"] for f in told)
    assert (home / "models" / ".a.part").exists()


def test_scripts(home: Path) -> None:
    done = call("--json", "--yes", "--only", "caches")
    assert [f["kind"] for f in json.loads(done.stdout)] == ["caches"]
    assert done.stderr == "removed 1 MB\n"
    assert (home / "models" / ".a.part").exists() and not (home / "cache" / "evaluations").exists()


def test_whole_runs_by_age(home: Path) -> None:
    assert "runs/r " in call("--runs", "30d", "--dry-run").output
    call("--runs", "30d", "--yes")
    assert not (home / "runs" / "r").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [(("--runs", "soon"), "is not a time"), (("--runs", "0"), "name an age"), (("nowhere",), "no run 'nowhere'")],
)
def test_wrong_requests_are_one_line(home: Path, args: tuple[str, ...], said: str) -> None:
    wrong = call(*args)
    assert wrong.exit_code == 2
    assert said in wrong.stderr and wrong.stderr.count("\n") == 1
