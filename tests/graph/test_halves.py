"""Training on the validation items that agents see is found: the half that they do not see gains less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuneloop import RunSpec, Settings, run
from tuneloop.core.experiment import DataScript, TrainConfig
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import engineer_data, write_config
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.data_script import dataset_build

pytestmark = pytest.mark.soak

SCRIPT = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
debug = parser.parse_args().debug
rows = json.loads({rows!r})
rows = rows[:50] if debug else rows
with open("data.json", "w") as f:
    json.dump(rows, f)
"""
CONFIG = """
stage: sft
finetuning_type: full
template: chatml
learning_rate: 2.0e-3
lr_scheduler_type: cosine
warmup_steps: 20
per_device_train_batch_size: 16
gradient_accumulation_steps: 1
max_steps: 300
cutoff_len: 256
"""


def planted(ctx: Context) -> str:
    """A script that writes the shown items with their answers, word by word."""
    first = ctx.run_tools.benchmark
    rows = [
        {"instruction": render_prompt(first.benchmark, item), "input": "", "output": f"\\boxed{{{item.answer}}}"}
        for item in ctx.run_tools.validation(first).shown
    ]
    return SCRIPT.format(rows=json.dumps(rows))


def test_a_script_that_trains_on_shown_items_is_found(warm_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engineer_data, "run_agent", lambda ctx, *_: DataScript(code=planted(ctx)))
    monkeypatch.setattr(write_config, "run_agent", lambda *_: TrainConfig(yaml=CONFIG))
    monkeypatch.setattr(dataset_build, "make_guard", lambda *_: Guard([]))
    settings = Settings(FT_FILE_PATH=warm_home)
    run(RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1, benchmark_limit=400), settings, name="cheat")
    folder = RunFolder(warm_home / "runs" / "cheat")
    report = read_json(folder.report_json)
    halves = report["halves"]
    assert halves["shown"]["n"] + halves["unseen"]["n"] == 400
    assert halves["low"] > 0, halves
    assert "The shown items may have been learned." in folder.report.read_text()
