from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine

ROOT = Path(__file__).resolve().parents[2]
RUN = (sys.executable, str(ROOT / "benchmarks" / "run.py"))


def bench(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, env=env)


@pytest.fixture(scope="module")
def listed() -> list[dict[str, Any]]:
    return json.loads(bench("--list").stdout)  # type: ignore[no-any-return]


def test_every_figure_is_explained(listed: list[dict[str, Any]]) -> None:
    readme = " ".join((ROOT / "benchmarks" / "README.md").read_text().split())
    for figure in listed:
        words = figure["name"].split(", ")[0]
        assert words in readme, f"benchmarks/README.md does not explain {words!r}"
        assert f"## {figure['group']} " in readme


def test_an_unknown_figure_is_refused() -> None:
    refused = bench("--only", "nonsense")
    assert refused.returncode == 2
    assert "no figure is called 'nonsense'; groups are" in refused.stderr


@pytest.mark.soak
def test_every_row_is_measured(
    tmp_path: Path,
    listed: list[dict[str, Any]],
    shared_settings: Settings,
    llamafactory: Engine,
    opencompass: Engine,
    tiny: Path,
    docker_host: str,
) -> None:
    out = tmp_path / "results.json"
    home = {"FT_FILE_PATH": str(shared_settings.home.root), "TMPDIR": str(tmp_path)}
    env = {**os.environ, **home, "DOCKER_HOST": docker_host}
    done = bench("--small", "--out", str(out), env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    rows = json.loads(out.read_text())
    assert [row["name"] for row in rows] == [f["name"] for f in listed if f["default"]]
    for row in rows:
        assert list(row) == ["name", "value", "unit", "goal", "ok"]
        assert isinstance(row["value"], int | float)
        assert isinstance(row["ok"], bool)
    found = {row["name"]: row["value"] for row in rows}
    assert found["trainings whose weights differ from stock's"] == 0
    assert not list(tmp_path.glob("tuneloop-bench-*")), "the home of the measurement is left behind"


WITHOUT_DOCKER = """
import json, sys
sys.path.append(sys.argv[1])
import sandboxes
from figures import FIGURES, SkippedError, row, table
one = FIGURES["start and end of a no-op job, docker / plain process"]
try:
    sandboxes.over({"process": 1.0, "plain": 1.0}, "docker", "plain")
except SkippedError as e:
    found = row(one, None, str(e))
    print(json.dumps({"kinds": sandboxes.kinds_here(), "row": found, "table": table([found])}))
"""


def test_without_a_docker_daemon_its_rows_say_so(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONSAFEPATH": "1", "DOCKER_HOST": f"unix://{tmp_path}/none"}
    words = (sys.executable, "-c", WITHOUT_DOCKER, str(ROOT / "benchmarks"))
    told = json.loads(subprocess.run(words, capture_output=True, text=True, env=env, check=True).stdout)
    assert "docker" not in told["kinds"] and "process" in told["kinds"]
    assert told["row"]["value"] is None and "docker" in told["row"]["skipped"].lower()
    assert "skipped" in told["table"] and "failed" not in told["table"]
