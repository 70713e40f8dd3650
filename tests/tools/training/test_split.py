"""A run's training by several processes: in the sandbox, as it is forecast, and how one that has begun goes on."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests import slurm_cluster
from tests.engines.llamafactory.test_processes import CLOSE, weights
from tests.sandboxes.test_nodes import runners
from tests.tools.training.test_methods import experiment, run_of
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import read_json, write_atomic, write_json
from tuneloop.core.job import JobStatus
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.config.config_text import engine_config
from tuneloop.tools.config.sharding import Devices
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training import methods
from tuneloop.tools.training.launch import (
    Split,
    how_to_split,
    longest_row,
    start_smoke_run,
    start_training,
    was_training_killed,
)

CONFIG = "finetuning_type: full\nlearning_rate: 1.0e-3\ntemplate: chatml\n"


def test_two_processes_find_each_other_in_a_sandbox(tmp_path: Path, tiny: Path, llamafactory: Engine) -> None:
    one = run_of(tmp_path, tiny, sandbox="bubblewrap")
    run_tools = RunTools(one.run, one.settings.model_copy(update={"train_processes": 2}))
    folder = experiment(run_tools, CONFIG)
    assert [f for f in methods.check_recipe(run_tools, folder.config.read_text()) if f.level == "error"] == []
    start_smoke_run(run_tools, folder)
    while (status := run_tools.status(folder.jobs, "smoke_run")[0]).state == "running":
        time.sleep(0.2)
    assert status.exit is not None and status.exit.ok, run_tools.failure_text(folder.jobs / "smoke_run.1", status)
    assert read_json(folder.work / "smoke_run_model" / "cost.json")["memory"] > 1.2 * status.exit.peak_memory / 2
    assert (folder.work / "smoke_run" / "rank-1.log").is_file()
    found = methods.forecast(run_tools, folder)
    assert found.steps == 6 and found.seconds > 0
    # Whatever number of processes trains, the config is the same: a later attempt may have another.
    assert engine_config(folder, "smoke_run").values["per_device_train_batch_size"] == 4


def test_the_longest_row_is_known_with_the_data_report(tmp_path: Path, tiny: Path) -> None:
    folder = experiment(run_of(tmp_path, tiny), CONFIG)
    assert longest_row(folder) is None
    write_json(folder.data / "report.json", {"rows": 24, "lengths": {"longest": 77}})
    assert longest_row(folder) == 77
    (folder.data / "report.json").unlink()
    assert longest_row(folder) is None


def test_on_several_nodes_of_unknown_gpus_it_stays_split_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path, llamafactory: Engine
) -> None:
    run_tools = run_of(tmp_path, tiny)
    monkeypatch.setattr(RunTools, "devices", Devices(1, nodes=2))
    folder, kept = experiment(run_tools, CONFIG), tmp_path / "split.json"
    write_json(kept, {"sharding": "fsdp", "processes": 1, "nodes": 2, "asked": False})
    (folder.model / "checkpoint-8").mkdir(parents=True)
    assert how_to_split(run_tools, folder, kept, folder.model).sharding == "fsdp"


@pytest.mark.parametrize(
    ("begun", "there", "now"),
    [
        (("zero3", 4), 8, ("zero3", 4)),
        (("fsdp", 4), 2, ("fsdp", 2)),
        (("fsdp", 4), 1, ("ddp", 1)),
        (("ddp", 2), 4, ("ddp", 4)),
        (("zero2", 4), 2, None),
    ],
)
def test_a_training_that_has_begun_stays_split_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny: Path,
    llamafactory: Engine,
    begun: tuple[str, int],
    there: int,
    now: tuple[str, int] | None,
) -> None:
    run_tools = run_of(tmp_path, tiny)
    monkeypatch.setattr(RunTools, "devices", Devices(there))
    folder, kept = experiment(run_tools, CONFIG), tmp_path / "split.json"
    fresh = Split(processes=there, sharding="ddp", asked=False)
    assert how_to_split(run_tools, folder, kept, folder.model) == fresh
    write_json(kept, {"sharding": begun[0], "processes": begun[1], "asked": False})
    assert how_to_split(run_tools, folder, kept, folder.model) == fresh, "without a checkpoint nothing binds"
    (folder.model / "checkpoint-8").mkdir(parents=True)
    assert how_to_split(run_tools, folder, kept, tmp_path / "smoke_run_model") == fresh
    if now is None:
        with pytest.raises(InfrastructureError, match="over 4 GPUs by zero2, and its checkpoints cannot go on with 2"):
            how_to_split(run_tools, folder, kept, folder.model)
    else:
        found = how_to_split(run_tools, folder, kept, folder.model)
        assert (found.sharding, found.processes) == now
        assert found.environment(1) == ({"FORCE_TORCHRUN": "1", "NPROC_PER_NODE": str(now[1])} if now[1] > 1 else {})


@pytest.mark.soak
def test_a_training_on_two_nodes_goes_on_after_one_died_and_has_the_weights_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path, llamafactory: Engine
) -> None:
    if absent := slurm_cluster.missing():
        pytest.skip(f"not there: {absent}")
    with (
        tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as place,
        slurm_cluster.cluster(Path(place) / "c") as nodes,
    ):
        for name, value in nodes.env.items():
            monkeypatch.setenv(name, value)
        one = run_of(tmp_path / "two", tiny, sandbox="bubblewrap", executor="slurm")
        two = RunTools(one.run, one.settings.model_copy(update={"slurm_options": ("--nodes=2",)}))
        assert two.devices == Devices(1, nodes=2)
        folder = longer(two)
        start_training(two, folder)
        until(lambda: list(folder.model.glob("checkpoint-*/proof.json")) or ended(two, folder), seconds=600)
        for pid in runners(folder.jobs / "train.1", b"import follow;"):
            os.kill(pid, signal.SIGKILL)
        assert was_training_killed(until(lambda: ended(two, folder), seconds=300, every=0.2))
        start_training(two, folder)
        status = until(lambda: ended(two, folder), seconds=600, every=0.2)
        assert status.exit is not None and status.exit.ok, two.failure_text(folder.jobs / "train.2", status)
        assert (folder.jobs / "train.2" / "node-1.json").is_file()
        assert list(folder.model.glob("checkpoint-*/processes.json"))
    alone = run_of(tmp_path / "one", tiny, sandbox="bubblewrap")
    other = longer(alone)
    start_training(alone, other)
    assert until(lambda: ended(alone, other), seconds=600, every=0.2).exit.ok
    # Two processes of one machine, undisturbed, are 3.2e-5 away from one after these 60 steps.
    assert float(np.abs(weights(folder.model) - weights(other.model)).max()) < 10 * CLOSE


def ended(run_tools: RunTools, folder: ExperimentFolder) -> JobStatus | None:
    """How its training did, once it is over."""
    status = run_tools.status(folder.jobs, "train")[0]
    return None if status.state == "running" else status


def longer(run_tools: RunTools) -> ExperimentFolder:
    """An experiment of some seconds, whose rows differ."""
    folder = experiment(run_tools, CONFIG)
    write_atomic(folder.config, folder.config.read_text().replace("max_steps: 6", "max_steps: 60"))
    rows = [{"instruction": f"{a} plus {a % 9}?", "input": "", "output": f"It is {a + a % 9}."} for a in range(120)]
    write_json(folder.data / "data.json", rows)
    return folder
