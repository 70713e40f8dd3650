"""A whole run on nodes of Slurm and of Ray: killed and gone on, it is the run that this machine makes alone."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests import ray_cluster, slurm_cluster
from tests.conftest import COMMAND, DEFAULT, SMALL
from tests.waiting import until
from tuneloop.core.files import digest_file, read_json

pytestmark = pytest.mark.soak


def journal(run: Path) -> dict[str, Any]:
    """What a run found, without times and places."""
    report = read_json(run / "report.json")
    scores = {name: read_json(run / name / "scores.json") for name in ("baseline", "experiments/001")}
    weights = [digest_file(file) for file in sorted((run / "best").rglob("*.safetensors"))]
    return {"scores": scores, "best": report["best"]["test"], "claim": report["claim"], "weights": weights}


@pytest.mark.parametrize("module", [slurm_cluster, ray_cluster], ids=["slurm", "ray"])
def test_the_same_spec_and_seed_give_the_same_journal_and_a_kill_loses_nothing(warm_home: Path, module: Any) -> None:
    if absent := module.missing():
        pytest.skip(f"not there: {absent}")
    runs = warm_home / "runs"
    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as place, module.cluster(Path(place) / "c") as nodes:
        env = {**os.environ, **SMALL, **nodes.env, "FT_FILE_PATH": str(warm_home)}
        run = [*COMMAND, "run", *DEFAULT]
        subprocess.run([*run, "--run-id", "here"], env=env, check=True, capture_output=True)
        with subprocess.Popen([*run, "--executor", nodes.executor, "--run-id", "there"], env=env) as orchestrator:
            until((runs / "there/experiments/001/jobs/train.1/alive").exists, seconds=600)
            orchestrator.kill()
        subprocess.run([*COMMAND, "resume", "there"], env=env, check=True, capture_output=True)
        trainings = list((runs / "there/experiments/001/jobs").glob("train.*"))
        assert len(trainings) == 1, "the training was run again"
        assert (trainings[0] / "cluster.txt").is_file()
        assert json.dumps(journal(runs / "there")) == json.dumps(journal(runs / "here"))
