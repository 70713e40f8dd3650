"""Every method of training on a pretrained model by the real engine: it learns, and its memory is as estimated."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import SHARED_HOME
from tests.prepared import prepared, wordproblems
from tuneloop.core.files import read_json, write_atomic, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.config.check import check_run_config
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.config.memory import estimate_memory
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import cpu_threads
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training.launch import config_context, start_smoke_run
from tuneloop.tools.training.result import log_points

WORDS = 60
COMMON = "max_steps: 6\nper_device_train_batch_size: 4\ncutoff_len: 128\n"
METHODS = {
    "lora": "finetuning_type: lora\nlearning_rate: 2.0e-4\n",
    "freeze": "finetuning_type: freeze\nfreeze_trainable_layers: 2\nlearning_rate: 1.0e-4\n",
    "oft": "finetuning_type: oft\noft_block_size: 32\nlearning_rate: 1.0e-3\n",
    "full": "finetuning_type: full\nlearning_rate: 1.0e-5\n",
}


def run_of(tmp_path: Path, model: Path, device: str = "cpu", **more: str) -> RunTools:
    settings = Settings(FT_FILE_PATH=tmp_path / "home", FT_ENGINES_DIR=SHARED_HOME / "engines")
    spec = RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "smollm2", **more})
    run, found = settings.home.run("r"), wordproblems(settings.home)
    return RunTools(prepared(run, spec, found, model, threads=cpu_threads(model), device=device), settings)


def experiment(run_tools: RunTools, config: str) -> ExperimentFolder:
    """Its recipe and rows are written; all rows are alike, so that memory is estimated for the very lengths."""
    folder = run_tools.run.experiment(1)
    row = {"instruction": "Say it. " + "one " * WORDS, "input": "", "output": "one " * 8 + "two"}
    write_atomic(folder.config, COMMON + config)
    write_json(folder.data / "data.json", [row] * 24)
    write_dataset_info(folder.data)
    write_json(folder.data / "report.json", {"rows": 24})
    return folder


@pytest.mark.soak
@pytest.mark.parametrize("method", METHODS)
def test_a_few_steps_of_each_method(tmp_path: Path, smollm2: Path, llamafactory: Engine, method: str) -> None:
    run_tools = run_of(tmp_path, smollm2)
    folder = experiment(run_tools, METHODS[method])
    assert [f.text for f in check_run_config(run_tools, folder.config.read_text()) if f.level == "error"] == []
    with run_tools.warm_engines():
        start_smoke_run(run_tools, folder)
        while (status := run_tools.status(folder.jobs, "smoke_run")[0]).state == "running":
            time.sleep(0.2)
    assert status.exit is not None and status.exit.ok, run_tools.failure_text(folder.jobs / "smoke_run.1", status)
    out = folder.work / "smoke_run_model"
    losses = [point["loss"] for point in log_points(out) if point.get("loss") is not None]
    assert losses[-1] < losses[0]
    cost = read_json(out / "cost.json")
    tokens = max(cost["lengths"])
    said = estimate_memory(config_context(run_tools, folder), tokens=-(-tokens // 8) * 8).total
    assert abs(said / cost["memory"] - 1) <= 0.15, f"{said >> 20} MiB, took {cost['memory'] >> 20}"


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("cpu", "does not work on the CPU, which trains in float32; leave it out"),
        ("cuda", "needs the package bitsandbytes, which the engine does not have; leave it out"),
    ],
)
def test_qlora_is_refused_before_anything_costs(
    tmp_path: Path, smollm2: Path, llamafactory: Engine, device: str, why: str
) -> None:
    text = COMMON + METHODS["lora"] + "quantization_bit: 4\n"
    wrong = [f for f in check_run_config(run_of(tmp_path, smollm2, device), text) if f.level == "error"]
    assert (wrong[0].key, wrong[0].text) == ("quantization_bit", why)
