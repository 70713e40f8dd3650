"""MLflow's real server: it takes a long run in its limits, twice what it took once, and is killed between."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, SHARED_HOME
from tests.graph.telemetry.conftest import CONFIG, finish, read_back, sent
from tests.mcp_servers.test_http import free_port
from tests.waiting import until
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.hub.store import make_complete

pytestmark = pytest.mark.soak
STEPS, PARAMETERS, IDEA = (
    2500,
    250,
    "why " * 2000,
)  # a request holds 1,000 numbers, 100 parameters; a tag 5,000 characters
READ = """
from pathlib import Path
from mlflow import MlflowClient
c = MlflowClient()
found = c.search_runs([c.get_experiment_by_name("tuneloop").experiment_id])
named = {r.data.tags["mlflow.runName"]: r for r in found}
first, whole = named["r1 experiment 1"], named["r1"]
told = {
    "names": sorted(r.data.tags["mlflow.runName"] for r in found),
    "nested": [named[n].data.tags["mlflow.parentRunId"] == whole.info.run_id for n in sorted(named) if n != "r1"],
    "parameters": len(first.data.params), "idea": len(first.data.tags["hypothesis"]), "status": first.info.status,
    "loss": [(m.step, m.value) for m in c.get_metric_history(first.info.run_id, "loss")],
    "script": Path(c.download_artifacts(first.info.run_id, "process_data.py")).read_text(),
    "files": sorted(f.path for f in c.list_artifacts(whole.info.run_id)),
    "test": [whole.data.metrics.get(name) for name in ("base_test", "best_test", "test_gain")],
}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    """The server of the locked client's version, in an environment of its own below the shared home, made once."""
    (version,) = re.findall(r"^mlflow-skinny==(\S+)", (ROOT / "locks" / "trackers.txt").read_text(), re.MULTILINE)
    home = SHARED_HOME / "independent"
    final = home / f"mlflow-{version}-env"

    def make(_: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(final)], check=True)
        subprocess.run([str(final / "bin" / "pip"), "install", "-q", f"mlflow=={version}"], check=True)

    make_complete(home / f"mlflow-{version}", make)
    return final / "bin" / "mlflow"


@contextmanager
def serving(program: Path, folder: Path, port: int) -> Iterator[None]:
    """The server on its folder; it is killed with all that is below it."""
    store = (
        "--backend-store-uri",
        f"sqlite:///{folder}/db.sqlite",
        "--artifacts-destination",
        str(folder / "artifacts"),
    )
    argv = [str(program), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1", *store]
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        until(lambda: server.poll() is not None or answers(port), 180, 0.2)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as told:
            return bool(told.status == 200)
    except OSError:
        return False


def lengthen(run: RunFolder) -> None:
    """A curve, a config and an idea beyond what one request takes."""
    first = run.experiment(1)
    rows = [{"current_steps": step, "loss": 2 / step, "lr": 1e-4, "epoch": 1} for step in range(1, STEPS + 1)]
    (first.model / "trainer_log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first.config.write_text(CONFIG + "".join(f"key_{i}: {i}\n" for i in range(PARAMETERS)))
    found: dict[str, Any] = read_json(first.result)
    found["hypothesis"]["statement"] = IDEA
    write_json(first.result, found)


def test_the_real_server_takes_a_long_run_once(run: RunFolder, clients: Path, program: Path, tmp_path: Path) -> None:
    lengthen(run)
    port, folder = free_port(), tmp_path / "server"
    env = {
        **os.environ,
        "FT_FILE_PATH": str(run.root.parents[1]),
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}",
        "OPENAI_API_KEY": "a-secret-of-ours",
        "HOME": str(tmp_path),
    }
    with serving(program, folder, port):
        began = time.monotonic()
        assert "2 experiments of run r1 sent" in sent("mlflow", clients, env).stdout
        assert time.monotonic() - began < 60
        told = read_back(READ, clients, run, env)
        assert (told["names"], told["nested"]) == (["r1", "r1 experiment 1", "r1 experiment 2"], [True, True])
        assert told["loss"] == [[step, 2 / step] for step in range(1, STEPS + 1)]
        assert (told["parameters"], told["idea"], told["status"]) == (PARAMETERS + 4, 5000, "FINISHED")
        assert told["script"] == run.experiment(1).script.read_text()
        assert (told["files"], told["test"]) == ([], [None] * 3), "nothing of the test before the report"

    (run.trackers / "mlflow.json").write_text("[2]")  # as after a kill before the proof was written
    finish(run)
    began = time.monotonic()
    away = sent("mlflow", clients, env)
    assert away.returncode == 1 and away.stderr.count("\n") == 1 and "tracker mlflow did not take it" in away.stderr
    assert time.monotonic() - began < 60

    with serving(program, folder, port):
        assert sent("mlflow", clients, env).returncode == 0
        again = read_back(READ, clients, run, env)
        assert (again["names"], again["loss"]) == (told["names"], told["loss"])
        assert (again["files"], again["test"]) == (["report.md"], [12.5, 71, 58.5])
    kept = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert len(kept) > 3 and not any(b"a-secret-of-ours" in data for data in kept)
