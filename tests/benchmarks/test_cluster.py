"""The simulated cluster: its jobs end, fail and are lost as drawn, and the real graph runs on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))


def attempt(root: Path, name: str) -> Path:
    folder = root / "001" / "jobs" / name
    folder.mkdir(parents=True)
    return folder


def test_training_whose_node_fails_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    from cluster_nodes import HOUR, RESTART, Cluster, World

    from tuneloop.sandboxes.cluster import LOST

    cluster = Cluster(World(nodes=1, hours=5.0, spread=0.0, failing=0.0, node_days=1e9, checkpoint=HOUR))
    first = attempt(tmp_path, "train.1")
    began = cluster.now()
    cluster.submit(first)
    cluster.at(began + 2.5 * HOUR, cluster.fail, 0)
    cluster.sleep(first)
    assert cluster.jobs[first].state == "lost"
    assert cluster.now() - began == pytest.approx(2.5 * HOUR + LOST, abs=5)
    second = attempt(tmp_path, "train.2")
    cluster.submit(second)
    cluster.sleep(second)
    assert cluster.jobs[second].state == "over" and (second / "exit.json").is_file()
    one, other = cluster.worked
    assert one.lost == pytest.approx(HOUR / 2, abs=5) and other.lost == 0
    assert other.ended - other.began == pytest.approx(3 * HOUR + RESTART, abs=5)
    assert cluster.failures == 1 and other.began >= one.ended + cluster.down - 1


def test_jobs_wait_for_a_node_and_fail_as_drawn(tmp_path: Path) -> None:
    from cluster_nodes import EARLY, HOUR, Cluster, World

    cluster = Cluster(World(nodes=1, hours=1.0, spread=0.0, failing=1.0, node_days=1e9))
    jobs = [attempt(tmp_path, "train.1"), attempt(tmp_path, "evaluate.1")]
    for job in jobs:
        cluster.submit(job)
    cluster.sleep(jobs[1])
    train, evaluation = cluster.worked
    assert train.ended - train.began == pytest.approx(EARLY * HOUR) and evaluation.began == pytest.approx(train.ended)
    assert [json.loads((job / "exit.json").read_text())["code"] for job in jobs] == [1, 0]


@pytest.mark.slow
def test_graph_runs_on_a_simulated_cluster(
    tmp_path: Path, shared_settings: Settings, llamafactory: Engine, opencompass: Engine, tiny: Path
) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(shared_settings.home.root)}
    size = ("--experiments", "5", "--slots", "3", "--nodes", "3", "--watch", "1", "--home", str(tmp_path / "home"))
    argv = (sys.executable, str(BENCHMARKS / "cluster.py"), *size)
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert sum(found["outcomes"].values()) == 5 and found["slots"] == 3 and found["window"] == 4
    assert 0.5 < found["utilisation"] <= 1 and found["hours"] > 5
    assert found["cpu_per_experiment"] > 0 and found["waiting_cores"]["1"] > 0
