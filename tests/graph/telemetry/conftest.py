"""A run that trackers are fed from, and their real libraries in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.locked import install_lock
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home, RunFolder

CONFIG = "stage: sft\nlearning_rate: 1.0e-4\nlora_target: all\nfreeze_extra_modules: [a, b]\n"


@pytest.fixture
def run(tmp_path: Path, make_long_run: Callable[..., RunFolder]) -> RunFolder:
    """Two experiments, the first with a config and a loss curve."""
    run = Home(tmp_path / "home").run("r1")
    run.root.mkdir(parents=True)
    made = make_long_run(run, experiments=2, progress=1)
    first = made.experiment(1)
    first.config.write_text(CONFIG)
    first.script.write_text("print('rows')\n")
    first.model.mkdir()
    rows = [{"current_steps": step, "loss": 2 / step, "lr": 1e-4, "epoch": 1} for step in (1, 2)]
    (first.model / "trainer_log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def finish(run: RunFolder) -> None:
    """Write the report, as `finish` does."""
    test = {"value": 12.5}
    side = {"test": {"value": 71.0}, "delivered": True, "claimed": True}
    claim = {"gain": 58.5, "low": 50.0, "high": 66.0}
    budget = {"experiments": 2, "seconds": 9.0, "spent": {}}
    write_json(run.report_json, {"baseline": {"test": test}, "best": side, "claim": claim, "budget": budget})
    run.report.write_text("71.0 on the sealed test\n")


BOOT = "import sys; sys.path.append(sys.argv[1]); run = sys.argv[2]; import json\n{}\nprint('told', json.dumps(told))"
TRACK = "import sys; sys.path.append(sys.argv.pop(1)); from tuneloop.cli.main import main; main()"


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the real libraries are, beside this environment's packages."""
    return install_lock("trackers", tmp_path_factory.mktemp("clients"))


def python(env: Mapping[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-c", *argv], env=env, capture_output=True, text=True, check=False)


def sent(name: str, clients: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`tuneloop track r1 --to NAME`, with the libraries."""
    return python(env, TRACK, str(clients), "track", "r1", "--to", name)


def read_back(script: str, clients: Path, run: RunFolder, env: Mapping[str, str]) -> dict[str, Any]:
    """What `script`, which uses a tracker's library, leaves in `told`."""
    done = python(env, BOOT.format(script), str(clients), str(run.root))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.rpartition("told ")[2])
    return found
