"""The config that the engine really gets: the agent's values with everything that the run decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.files import write_json
from tuneloop.tools.config.config_text import dump_config

# What a config of the loop may not say: keys that code sets, and those that reach the network or other folders.

BY_RUN = "is set by the run; leave it out"
NETWORK = "reaches the network, which a training job does not have; leave it out"
FOREIGN = "runs foreign code; leave it out"
OUTSIDE = "names a place outside the run; leave it out"
MACHINES = "is about several machines or devices and set by the run; leave it out"

# Values that say what the run says anyway are let through.
HARMLESS: dict[str, tuple[Any, ...]] = {
    "do_train": (True,),
    "stage": ("sft",),
    "report_to": ("none", [], ["none"]),
    "trust_remote_code": (False,),
    "push_to_hub": (False,),
    "use_swanlab": (False,),
    "train_from_scratch": (False,),
    "full_determinism": (False, True),
    "hub_always_push": (False,),
    "deepspeed": ("",),
    "resume_from_checkpoint": (),
    "overwrite_output_dir": (),
    "do_predict": (False,),
    "predict_with_generate": (False,),
    "auto_find_batch_size": (False,),
    "enable_torch_profiler": (False,),
}

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("model_name_or_path", "dataset", "eval_dataset", "dataset_dir", "output_dir", "resume_from_checkpoint"), BY_RUN
    ),
    **dict.fromkeys(("overwrite_output_dir", "ignore_data_skip", "save_only_model", "enable_jit_checkpoint"), BY_RUN),
    "do_train": "must be true, or nothing is trained; leave it out",
    "stage": "is not sft, the only stage a run trains; write sft or leave it out",
    "report_to": "sends the training's figures elsewhere; write none or leave it out",
    "trust_remote_code": FOREIGN,
    "train_from_scratch": "throws the base model's weights away; leave it out",
    "do_predict": "is not for training; answers are scored by the evaluation",
    "predict_with_generate": "is not for training; answers are scored by the evaluation",
    "auto_find_batch_size": "changes the batch size silently; write per_device_train_batch_size",
    "enable_torch_profiler": "writes traces and slows training; leave it out",
    **dict.fromkeys(
        ("push_to_hub", "hub_token", "hub_private_repo", "hub_model_id", "hub_strategy", "hub_always_push"), NETWORK
    ),
    **dict.fromkeys(("hub_revision", "hf_hub_token", "ms_hub_token", "om_hub_token", "export_hub_model_id"), NETWORK),
    **dict.fromkeys(("project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"), NETWORK),
    **dict.fromkeys(("adapter_name_or_path", "adapter_folder", "cache_dir", "offload_folder"), OUTSIDE),
    **dict.fromkeys(("new_special_tokens_config", "media_dir", "tokenized_path", "generation_config"), OUTSIDE),
    **dict.fromkeys(("logging_dir", "profiler_output_dir", "ref_model", "ref_model_adapters"), OUTSIDE),
    **dict.fromkeys(("reward_model", "reward_model_adapters", "export_dir", "hyper_parallel_args"), OUTSIDE),
    **dict.fromkeys(("deepspeed", "fsdp", "fsdp_config", "accelerator_config", "parallelism_config"), MACHINES),
    **dict.fromkeys(("local_rank", "ddp_backend", "master_addr", "master_port", "ray_init_kwargs"), MACHINES),
    **dict.fromkeys(("ray_num_workers", "use_mca", "use_hyper_parallel", "infer_backend"), MACHINES),
}
PREFIXES: dict[str, str] = {
    "swanlab_": NETWORK,
    "use_swanlab": NETWORK,
    "vllm_": BY_RUN,
    "sglang_": BY_RUN,
    "kt_": BY_RUN,
}

# Taken, but overwritten by `finalize`: a note, no error.
OVERWRITTEN = frozenset(
    {
        "data_seed",
        "dataloader_pin_memory",
        "disable_tqdm",
        "logging_nan_inf_filter",
        "logging_steps",
        "logging_strategy",
        "overwrite_cache",
        "plot_loss",
        "save_steps",
        "save_strategy",
        "save_total_limit",
        "seed",
        "use_cpu",
    }
)


def refused_key(key: str, value: Any) -> str | None:
    """Why the loop does not take this key with this value; None when it does."""
    if value in HARMLESS.get(key, ()) or (value is None and key not in {"report_to"}):
        return None
    if key in REFUSED:
        return REFUSED[key]
    return next((why for prefix, why in PREFIXES.items() if key.startswith(prefix) and value is not False), None)


def notable_keys(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys that reach the network or run foreign code, with what they do, for those who let them."""
    told = {NETWORK: "reaches the network", FOREIGN: "runs code that comes with the model"}
    found = [(key, told.get(refused_key(key, value) or "")) for key, value in values.items()]
    return [(key, text) for key, text in found if text]


def overwritten_keys(values: Mapping[str, Any]) -> list[str]:
    """Keys of the config whose values the run replaces."""
    return [key for key in values if key in OVERWRITTEN]


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


def finalize_config(
    asked: Mapping[str, Any],
    *,
    model: Path,
    data: Path,
    output: Path,
    seed: int,
    device: str,
    steps_override: int | None,
) -> str:
    """Sorted YAML for the engine.

    Args:
        asked: values of the attempt's config.
        model: the base model; all paths must be absolute.
        data: folder with `data.json` and `dataset_info.json`.
        output: where the trained model goes.
        seed: of data and training.
        device: cpu or cuda.
        steps_override: steps of a smoke run, every one logged, nothing kept on the way; None: the full run.
    """
    values = finalize_values(asked, model=model, data=data, output=output, seed=seed, device=device)
    if steps_override is not None:
        kept = {k: v for k, v in values.items() if k not in MICRO_DROPS}
        values = kept | MICRO | {"max_steps": steps_override}
    return dump_config(values)


def finalize_values(
    asked: Mapping[str, Any], *, model: Path, data: Path, output: Path, seed: int, device: str
) -> dict[str, Any]:
    """The values of a full run, as `finalize_config` writes them."""
    values = agent_values(asked) | _places(model, data, output) | {"seed": seed, "data_seed": seed} | _device(device)
    values.setdefault("finetuning_type", "lora")
    return {k: v for k, v in values.items() if v is not None}


def agent_values(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's values with what every run decides, places and device left out."""
    return {**asked, **DECIDED, **_with_best_checkpoint(asked)}


def _places(model: Path, data: Path, output: Path) -> dict[str, str]:
    return {"model_name_or_path": str(model), "dataset_dir": str(data), "output_dir": str(output)}


def _device(device: str) -> dict[str, bool]:
    return {"use_cpu": True, "dataloader_pin_memory": False} if device == "cpu" else {"use_cpu": False}


def _with_best_checkpoint(asked: Mapping[str, Any]) -> dict[str, Any]:
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
    rows = trained_rows(config, rows)
    batch = int(config.get("per_device_train_batch_size") or 8)
    batches = rows // batch if config.get("dataloader_drop_last") else math.ceil(rows / batch)
    each = max(1, math.ceil(batches / int(config.get("gradient_accumulation_steps") or 1)))
    epochs = config.get("num_train_epochs")
    return math.ceil((3.0 if epochs is None else epochs) * each)


def trained_rows(config: Mapping[str, Any], rows: int) -> int:
    """Rows of so many that are trained on."""
    rows = min(rows, config.get("max_samples") or rows)
    return rows - held_out_rows(config, rows)


def held_out_rows(config: Mapping[str, Any], rows: int) -> int:
    """Rows of so many that losses are measured on."""
    held = config.get("val_size") or 0
    return math.ceil(rows * held) if held < 1 else int(held)
