"""The config that the engine really gets: the agent's values with everything that the run decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.files import write_json
from tuneloop.tools.params.config_text import dump_config, parse_config

DATASET = "train"
COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}
DECIDED: dict[str, Any] = {
    "stage": "sft",
    "do_train": True,
    "dataset": DATASET,
    "overwrite_cache": True,
    "report_to": "none",
    "trust_remote_code": False,
    "push_to_hub": False,
    "plot_loss": False,
    "disable_tqdm": True,
    "logging_strategy": "steps",
    "logging_steps": 0.02,
    # Unfiltered, a NaN is written as NaN; filtered it would be a loss of 0.0.
    "logging_nan_inf_filter": False,
    "save_strategy": "steps",
    "save_steps": 0.2,
    "save_total_limit": 2,
    "save_only_model": False,
}
MICRO: dict[str, Any] = {
    "logging_steps": 1,
    "save_strategy": "no",
    "eval_strategy": "no",
    "val_size": 0.0,
    "load_best_model_at_end": False,
    "warmup_steps": 0,
    # The rows lie in the order of the steps.
    "disable_shuffling": True,
}
MICRO_DROPS = (
    "warmup_ratio",
    "early_stopping_steps",
    "metric_for_best_model",
    "eval_steps",
    "max_samples",
    "train_sampling_strategy",
)


def finalize(
    text: str, *, model: Path, data: Path, output: Path, seed: int, device: str, steps_override: int | None
) -> str:
    """Sorted YAML for the engine. `data` holds `data.json` and `dataset_info.json`; paths must be absolute.

    With `steps_override` it is a micro-run: that many steps, every one logged, nothing kept on the way.
    Raises ConfigError when `text` is no config.
    """
    asked = parse_config(text).values
    values = asked_of_run(asked) | _places(model, data, output) | {"seed": seed, "data_seed": seed} | _device(device)
    values.setdefault("finetuning_type", "lora")
    if steps_override is not None:
        kept = {k: v for k, v in values.items() if k not in MICRO_DROPS}
        values = kept | MICRO | {"max_steps": steps_override}
    return dump_config({k: v for k, v in values.items() if v is not None})


def asked_of_run(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's values with what every run decides, places and device left out."""
    return {**asked, **DECIDED, **_best(asked)}


def _places(model: Path, data: Path, output: Path) -> dict[str, str]:
    return {"model_name_or_path": str(model), "dataset_dir": str(data), "output_dir": str(output)}


def _device(device: str) -> dict[str, bool]:
    return {"use_cpu": True, "dataloader_pin_memory": False} if device == "cpu" else {"use_cpu": False}


def _best(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Checkpoints where evaluations are, when the best of them shall be kept: the engine wants both in step."""
    if not asked.get("load_best_model_at_end"):
        return {}
    if asked.get("eval_strategy") == "epoch":
        return {"save_strategy": "epoch"}
    every = asked.get("eval_steps") or 0.2
    return {"eval_steps": every, "save_steps": every}


def write_dataset_info(folder: Path) -> None:
    """Register `data.json` beside it, as the engine wants it."""
    write_json(folder / "dataset_info.json", {DATASET: {"file_name": "data.json", "columns": COLUMNS}})


def planned_steps(config: Mapping[str, Any], rows: int) -> int:
    """Optimizer steps of a full run on one device; with packing an upper bound."""
    steps = int(config.get("max_steps") or -1)
    if steps > 0:
        return steps
    rows = min(rows, config.get("max_samples") or rows)
    rows -= held_out(config, rows)
    batch = int(config.get("per_device_train_batch_size") or 8)
    batches = rows // batch if config.get("dataloader_drop_last") else math.ceil(rows / batch)
    each = max(1, math.ceil(batches / int(config.get("gradient_accumulation_steps") or 1)))
    epochs = config.get("num_train_epochs")
    return math.ceil((3.0 if epochs is None else epochs) * each)


def held_out(config: Mapping[str, Any], rows: int) -> int:
    """Rows of so many that losses are measured on."""
    held = config.get("val_size") or 0
    return math.ceil(rows * held) if held < 1 else int(held)
