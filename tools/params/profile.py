"""What a config of the loop may not say: keys that code sets, and those that reach the network or other folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def refusal(key: str, value: Any) -> str | None:
    """Why the loop does not take this key with this value; None when it does."""
    if value in HARMLESS.get(key, ()) or (value is None and key not in {"report_to"}):
        return None
    if key in REFUSED:
        return REFUSED[key]
    return next((why for prefix, why in PREFIXES.items() if key.startswith(prefix) and value is not False), None)


def noteworthy(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys that reach the network or run foreign code, with what they do, for those who let them."""
    told = {NETWORK: "reaches the network", FOREIGN: "runs code that comes with the model"}
    found = [(key, told.get(refusal(key, value) or "")) for key, value in values.items()]
    return [(key, text) for key, text in found if text]


def overwritten(values: Mapping[str, Any]) -> list[str]:
    """Keys of the config whose values the run replaces."""
    return [key for key in values if key in OVERWRITTEN]
