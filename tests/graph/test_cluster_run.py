"""A whole run on nodes of Slurm and of Ray: killed and gone on, it is the run that this machine makes alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests import ray_cluster, slurm_cluster
from tests.conftest import COMMAND, DEFAULT, SMALL, begin_small, tuneloop
from tests.object_store import ACCOUNT, Store
from tests.slurm_cluster import processes_with
from tests.waiting import until
from tuneloop.core.files import digest_file, read_json, read_lines

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


def test_nodes_that_share_no_files_make_the_same_run_and_a_node_that_dies_leaves_its_checkpoints(
    warm_home: Path, s3: Store, s3_server: tuple[str, Path]
) -> None:
    if absent := slurm_cluster.missing():
        pytest.skip(f"not there: {absent}")
    runs, given = warm_home / "runs", {**ACCOUNT, "AWS_ENDPOINT_URL": s3.server}
    within = slurm_cluster.alone(warm_home, warm_home.with_name("profile"), s3_server[1], given)
    with (
        tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as place,
        slurm_cluster.cluster(Path(place) / "c", nodes=1, within=within) as nodes,
    ):
        storage = {"TUNELOOP_NODE_FILES": "storage", "TUNELOOP_STORAGE": s3.url, **nodes.env}
        begin_small(warm_home, "there", "--executor", "slurm", **storage)
        jobs, model = runs / "there/experiments/001/jobs", runs / "there/experiments/001/model"
        env = {**os.environ, **storage, "FT_FILE_PATH": str(warm_home)}
        with subprocess.Popen([*COMMAND, "resume", "there"], env=env) as orchestrator:
            until(lambda: [*model.glob("checkpoint-*/proof.json")], seconds=1800)
            killed = time.monotonic()
            for pid in processes_with(str(jobs / "train.1")):
                os.kill(pid, signal.SIGKILL)
            assert orchestrator.wait() == 0
        assert (jobs / "train.2" / "cluster.txt").is_file()
        again = next(row for row in read_lines(model / "watch.jsonl") if row["at"] > killed)
        assert again["step"] > 20, "it began anew"
    begin_small(warm_home, "here")
    tuneloop(warm_home, "resume", "here")
    assert json.dumps(journal(runs / "there")) == json.dumps(journal(runs / "here"))
