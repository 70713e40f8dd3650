"""What people call parameters and values when they tell somebody what to do; known without an installed release."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tuneloop.core.experiment import Value
from tuneloop.tools.params.aliases import ALIASES
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.dimensions import BY_NAME
from tuneloop.tools.params.lexicon import tables

Settings = tuple[tuple[str, Value], ...]
# Parameters that are turned in words; others are named as they are written.
TURNED = frozenset(
    [
        "learning_rate",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "num_train_epochs",
        "max_steps",
        "warmup_steps",
        "warmup_ratio",
        "lr_scheduler_type",
        "optim",
        "weight_decay",
        "max_grad_norm",
        "adam_beta1",
        "adam_beta2",
        "adam_epsilon",
        "label_smoothing_factor",
        "neftune_noise_alpha",
        "use_adam_mini",
        "use_muon",
        "flash_attn",
        "disable_gradient_checkpointing",
        "use_unsloth",
        "enable_liger_kernel",
        "bf16",
        "fp16",
        "fp8",
        "tf32",
        "pure_bf16",
        "lora_rank",
        "lora_alpha",
        "lora_dropout",
        "lora_target",
        "use_rslora",
        "use_dora",
        "pissa_init",
        "loraplus_lr_ratio",
        "freeze_trainable_layers",
        "use_llama_pro",
        "oft_rank",
        "oft_block_size",
        "mixture_of_depths",
        "quantization_method",
        "quantization_type",
        "double_quantization",
        "cutoff_len",
        "rope_scaling",
        "packing",
        "neat_packing",
        "train_on_prompt",
        "mask_history",
        "template",
        "early_stopping_steps",
        "pref_beta",
        "quantization_bit",
        "finetuning_type",
        "max_samples",
        "disable_shuffling",
        "seed",
        "eval_steps",
        "save_steps",
        "logging_steps",
        "val_size",
    ]
)
# Those of them that are on or off and are not called so.
SWITCHES = frozenset(name for name in TURNED if name.startswith(("use_", "enable_", "disable_"))) | {
    "bf16",
    "fp16",
    "tf32",
    "pure_bf16",
    "packing",
    "neat_packing",
    "double_quantization",
    "train_on_prompt",
    "mask_history",
}
# `no warmup`: none of it.
ADDED = frozenset(
    ["warmup_ratio", "warmup_steps", "weight_decay", "lora_dropout", "label_smoothing_factor", "neftune_noise_alpha"]
)
# Words of everyday speech that a question about parameters may take for one, an order may not.
EVERYDAY = frozenset(
    [
        "r",
        "method",
        "model",
        "task",
        "train",
        "data",
        "output",
        "resume",
        "stream",
        "device",
        "system",
        "memory",
        "half",
        "stage",
        "decay",
        "patience",
        "monitor",
        "bit",
        "beta",
        "shuffle",
        "clip",
        "eps",
        "l2",
        "momentum",
        "subset",
        "limit the data",
        "limit data",
        "curriculum",
        "deterministic",
        "reproducible",
        "reproducibility",
        "determinism",
        "regularization",
        "regularisation",
        "smoothing",
        "clipping",
        "pack",
        "compile",
        "annealing",
        "truncation",
        "adapter",
        "dataset",
        "peft",
        "number of example",
        "fewer example",
        "how long to train",
        "train longer",
        "training length",
        "training duration",
        "exploding gradient",
        "first moment",
        "second moment",
        "same result",
        "order of data",
        "keep the order",
        "no shuffle",
        "only last layer",
        "train last layer",
        "small sample",
        "use only example",
        "limit sample",
        "first example",
        "loss on prompt",
        "only last answer",
        "last response",
        "stop early",
        "stop when validation stop improving",
        "stop training when",
    ]
)
KEPT = {
    "rank": "lora_rank",
    "alpha": "lora_alpha",
    "batch": "per_device_train_batch_size",
    "per device batch": "per_device_train_batch_size",
    "micro batch": "per_device_train_batch_size",
    "micro batch size": "per_device_train_batch_size",
    "learn rate": "learning_rate",
    "accumulation": "gradient_accumulation_steps",
    "grad accum": "gradient_accumulation_steps",
    "step": "max_steps",
    "epoch": "num_train_epochs",
    "fine tuning method": "finetuning_type",
    "finetuning method": "finetuning_type",
    "training method": "finetuning_type",
    "dropout": "lora_dropout",
    "dropout of lora": "lora_dropout",
    "rank of lora": "lora_rank",
    "alpha of lora": "lora_alpha",
    "max length": "cutoff_len",
    "sequence": "cutoff_len",
    "context": "cutoff_len",
    "context length": "cutoff_len",
    "context window": "cutoff_len",
    "context size": "cutoff_len",
    "window": "cutoff_len",
    "bs": "per_device_train_batch_size",
    "sample per step": "per_device_train_batch_size",
    "example at a time": "per_device_train_batch_size",
    "sample at a time": "per_device_train_batch_size",
    "pass over the data": "num_train_epochs",
    "passes over the data": "num_train_epochs",
    "passe over the data": "num_train_epochs",
    "pass over the dataset": "num_train_epochs",
    "passe over the dataset": "num_train_epochs",
    "passe through the data": "num_train_epochs",
    "pass through the data": "num_train_epochs",
    "passe over the training set": "num_train_epochs",
    "passe through the training set": "num_train_epochs",
    "full pass": "num_train_epochs",
    "full passe": "num_train_epochs",
    "time over the data": "num_train_epochs",
    "gradient update": "max_steps",
    "weight update": "max_steps",
    "optimizer step": "max_steps",
    "training step": "max_steps",
    "step size": "learning_rate",
    "clip the gradient": "max_grad_norm",
    "clip gradient": "max_grad_norm",
    "gradient clip": "max_grad_norm",
    "clip the gradient norm": "max_grad_norm",
    "clipping threshold": "max_grad_norm",
    "wd": "weight_decay",
    "smooth the label": "label_smoothing_factor",
    "number of layer": "freeze_trainable_layers",
    "random seed": "seed",
    "sequence length": "cutoff_len",
    "cutoff": "cutoff_len",
}
RATES = ("learning rate", "lr")
COURSES = ("schedule", "scheduler", "decay", "annealing")
# `cosine schedule`, `constant lr`, `linear learning rate decay`.
SCHEDULES = {
    f"{kind} {rest}": {"lr_scheduler_type": kind}
    for kind in ("cosine", "linear", "constant", "polynomial")
    for rest in (*RATES, *COURSES, *(f"{rate} {course}" for rate in RATES for course in COURSES))
}
VALUES: Mapping[str, Mapping[str, Any]] = {
    **SCHEDULES,
    "lion": {"optim": "lion_32bit"},
    "pack the sequence": {"packing": True},
    "pack sequence": {"packing": True},
    "pack the example": {"packing": True},
    "pack example": {"packing": True},
    "sequence packing": {"packing": True},
    "linear decay for the learning rate": {"lr_scheduler_type": "linear"},
    "all its weight": {"finetuning_type": "full"},
    "all of its weight": {"finetuning_type": "full"},
    "all weight": {"finetuning_type": "full"},
    "half precision fp16": {"fp16": True},
    "all linear layer": {"lora_target": "all"},
    "all the linear layer": {"lora_target": "all"},
    "every linear layer": {"lora_target": "all"},
    "every linear module": {"lora_target": "all"},
    "all linear module": {"lora_target": "all"},
    "all the layer": {"lora_target": "all"},
    "all layer": {"lora_target": "all"},
    "all the weight": {"finetuning_type": "full"},
    "full weight": {"finetuning_type": "full"},
    "full model": {"finetuning_type": "full"},
    "full parameter training": {"finetuning_type": "full"},
    "flash attention 2": {"flash_attn": "fa2"},
    "flash attention": {"flash_attn": "fa2"},
    "flashattention": {"flash_attn": "fa2"},
    "fa2": {"flash_attn": "fa2"},
    "sdpa": {"flash_attn": "sdpa"},
    "adamw torch": {"optim": "adamw_torch"},
    "adamw 8 bit": {"optim": "adamw_8bit"},
    "8 bit adamw": {"optim": "adamw_8bit"},
    "8 bit adam": {"optim": "adamw_8bit"},
    "adamw": {"optim": "adamw_torch"},
    "sgd": {"optim": "sgd"},
    "adafactor": {"optim": "adafactor"},
    "cosine": {"lr_scheduler_type": "cosine"},
    "lora training": {"finetuning_type": "lora"},
    "lora tuning": {"finetuning_type": "lora"},
    "lora fine tuning": {"finetuning_type": "lora"},
    "lora adapter": {"finetuning_type": "lora"},
    "dora": {"use_dora": True},
    "rslora": {"use_rslora": True},
    "qlora": {"finetuning_type": "lora", "quantization_bit": 4},
    "full finetune": {"finetuning_type": "full"},
    "full fine tune": {"finetuning_type": "full"},
}
WEAK = frozenset(
    ["full", "text", "half", "standard", "stream", "image", "video", "audio", "packed", "packing", "freeze", "single"]
)


@lru_cache(maxsize=4)
def parameter_names(catalog: Catalog | None) -> Mapping[str, str]:
    """Phrase, singular and without hyphens → parameter."""
    words, concepts = tables()
    found: dict[str, str] = {}
    for entry in concepts:
        name = next(iter(entry["keys"]))
        if entry.get("form", "one") == "one" and name in TURNED:
            found |= {phrase: name for phrase in _split(entry["asked"]) if phrase not in VALUES}
    found |= {
        _spoken(other): name
        for other, alias in ALIASES.items()
        for name in [alias.parameter]
        if name in TURNED and not alias.is_method
    }
    found |= {_spoken(other): name for name, text in words["names"].items() if name in TURNED for other in _split(text)}
    found = {phrase: name for phrase, name in found.items() if phrase not in EVERYDAY}
    found |= {_spoken(name): name for name in TURNED if not name.startswith("disable_")} | KEPT
    if catalog is not None:
        found |= {_spoken(name): name for name in catalog.parameters if "_" in name and not name.startswith("disable_")}
        found = {phrase: name for phrase, name in found.items() if name in catalog.parameters}
    return {phrase: name for phrase, name in found.items() if phrase not in value_names()}


@lru_cache(maxsize=1)
def value_names() -> Mapping[str, Settings]:
    """Phrase → what it writes: `qlora`, `full fine tuning`, `adamw`."""
    words, _ = tables()
    found: dict[str, Mapping[str, Any]] = {}
    for dimension in ("method", "quantization", "optimizer"):
        for value, text in words["decisions"][dimension].items():
            if writes := BY_NAME[dimension].value(value).writes:
                found |= {phrase: writes for phrase in _split(text) if phrase not in WEAK}
    switches = {name.replace("_", " "): {name: True} for name in TURNED if name.startswith(("use_", "enable_"))}
    return {_spoken(phrase): tuple(writes.items()) for phrase, writes in {**found, **switches, **VALUES}.items()}


def _split(text: str) -> list[str]:
    return [_spoken(part) for part in text.split("|")]


def _spoken(name: str) -> str:
    words = name.lower().replace("_", " ").replace("-", " ").split()
    return " ".join(
        w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith(("ss", "us", "is")) else w for w in words
    )
